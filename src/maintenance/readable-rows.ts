import { type Kysely, sql } from 'kysely'
import type { Tables } from '../store/tables.ts'
import { type Key, type KeyedTable, keyOf, type Row, readRows, readRowsBackwards } from './rows.ts'

/** Divides the size of a batch that cannot be read, to get closer to the unreadable row. */
const SHRINK = 10

/**
 * Yields all readable rows of a table in batches. If some rows cannot be read, for example because a page is damaged,
 * yields those before them in key order, and then those after them in reverse key order.
 *
 * @param db must be in a transaction
 * @param onGap receives a sentence that names the unreadable rows and the error
 */
export async function* readableRows(
  db: Kysely<Tables>,
  table: KeyedTable,
  size: number,
  onGap: (text: string) => void,
): AsyncGenerator<Row[]> {
  const before = yield* untilFailure(table, size, (last, limit) =>
    attempt(db, () => readRows(db, table, last, { limit })),
  )
  if (!before.failed) return
  const end = JSON.stringify(before.last)
  const after = yield* untilFailure(table, size, async (first, limit) => {
    const rows = await attempt(db, () => readRowsBackwards(db, table, first, limit))
    const overlap = rows.findIndex((row) => JSON.stringify(keyOf(table, row)) === end)
    return overlap < 0 ? rows : rows.slice(0, overlap)
  })
  const bounds = [
    ...(before.last ? [`after ${end}`] : []),
    ...(after.last ? [`before ${JSON.stringify(after.last)}`] : []),
  ]
  const which = bounds.length > 0 ? `rows ${bounds.join(' and ')}` : 'all rows'
  onGap(`${table.name}: cannot read ${which}: ${messageOf(before.error)}`)
}

interface End {
  /** Key of the last row that was read; null if there was none. */
  last: Key | null
  failed: boolean
  error?: unknown
}

/** Yields batches of rows up to the first row that cannot be read. */
async function* untilFailure(
  table: KeyedTable,
  size: number,
  read: (last: Key | null, limit: number) => Promise<Row[]>,
): AsyncGenerator<Row[], End> {
  let last: Key | null = null
  for (let limit = size; ; ) {
    let rows: Row[]
    try {
      rows = await read(last, limit)
    } catch (error) {
      if (limit === 1) return { last, failed: true, error }
      limit = Math.ceil(limit / SHRINK)
      continue
    }
    const latest = rows.at(-1)
    if (!latest) return { last, failed: false }
    yield rows
    last = keyOf(table, latest)
  }
}

/**
 * Runs a query in a savepoint, so that the transaction continues if the query fails.
 *
 * @throws the error of the query, or that of the database if the transaction cannot continue
 */
export async function attempt<T>(db: Kysely<Tables>, query: () => Promise<T>): Promise<T> {
  await sql`savepoint attempt`.execute(db)
  try {
    return await query()
  } catch (error) {
    await sql`rollback to savepoint attempt`.execute(db)
    throw error
  } finally {
    await sql`release savepoint attempt`.execute(db)
  }
}

/** Returns the message of an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
