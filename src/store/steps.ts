/**
 * Maximum number of rows that one transaction moves to another owner. On SQLite, no other process
 * writes meanwhile.
 */
export const MOVE_STEP = 500
/** Maximum number of rows that one statement deletes. */
export const DELETE_STEP = 5_000
/** Maximum number of rows that one statement inserts: the databases limit its parameters. */
export const INSERTED_ROWS = 1_000
/**
 * Rows that take so long to read or to encode that others have a turn of the event loop in between:
 * a commit may have 1,000 contexts of 7 KB, and to read them, or to encode them, takes 30 ms.
 */
export const MANY_ROWS = 300
