/**
 * Maximum number of rows that one transaction moves to another owner. On SQLite, no other process
 * writes meanwhile.
 */
export const MOVE_STEP = 500
/** Maximum number of rows that one statement deletes. */
export const DELETE_STEP = 5_000
/** Maximum number of rows that one statement inserts: the databases limit its parameters. */
export const INSERTED_ROWS = 1_000
