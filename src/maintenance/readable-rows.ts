import { type Kysely, sql } from 'kysely'
import type { Tables } from '../store/tables.ts'
import { type Key, type KeyedTable, keyOf, type Row, readRows, readRowsBackwards } from './rows.ts'

/** By how much a batch that cannot be read is made smaller, to come nearer to the row that it fails at. */
const NARROWER = 10

/**
 * All rows of a table that can be read, in batches. Where some cannot, as of a damaged page, those before them are read in
 * the order of their keys, and those behind them in the opposite order.
 *
 * @param db in a transaction
 * @param onGap told which rows cannot be read, and why
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
  const behind = yield* untilFailure(table, size, async (first, limit) => {
    const rows = await attempt(db, () => readRowsBackwards(db, table, first, limit))
    const met = rows.findIndex((row) => JSON.stringify(keyOf(table, row)) === end)
    return met < 0 ? rows : rows.slice(0, met)
  })
  const from = before.last ? `after ${end}` : 'from the first on'
  const to = behind.last ? ` and before ${JSON.stringify(behind.last)}` : ''
  onGap(`${table.name}: the rows ${from}${to} cannot be read: ${messageOf(before.error)}`)
}

interface End {
  /** Key of the last row that was read; null: none was. */
  last: Key | null
  failed: boolean
  error?: unknown
}

/** Reads batches of rows up to the first one that cannot be read. */
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
      limit = Math.ceil(limit / NARROWER)
      continue
    }
    const latest = rows.at(-1)
    if (!latest) return { last, failed: false }
    yield rows
    last = keyOf(table, latest)
  }
}

/**
 * Runs a query within a transaction, which goes on when the query fails.
 *
 * @throws the query's error; that of the database where the transaction cannot go on
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

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
