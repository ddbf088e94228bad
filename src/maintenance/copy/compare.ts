import type { Kysely } from 'kysely'
import type { Tables } from '../../store/tables.ts'
import { type KeyedTable, keyOf, type Row, readRows } from '../rows.ts'

/** Rows read at a time. */
const BATCH = 1_000

export interface Differences {
  /** Number of rows of the first database that were compared. */
  compared: number
  /** Rows of the first database that are missing or different in the second. */
  missing: Row[]
  /** Rows that only the second database has. */
  surplus: Row[]
}

/** Compares a table in two databases. Yields the differences batch by batch, in key order. */
export async function* compareTable(
  first: Kysely<Tables>,
  second: Kysely<Tables>,
  table: KeyedTable,
): AsyncGenerator<Differences> {
  const identity = (row: Row) => JSON.stringify(keyOf(table, row))
  for (let after: ReturnType<typeof keyOf> | null = null; ; ) {
    const here: Row[] = await readRows(first, table, after, { limit: BATCH })
    const lastRow = here.at(-1)
    const isLast = here.length < BATCH || !lastRow
    const last: ReturnType<typeof keyOf> | null = isLast ? null : keyOf(table, lastRow)
    const there = new Map((await readRows(second, table, after, { last })).map((row) => [identity(row), row]))
    const missing = here.filter((row) => {
      const other = there.get(identity(row))
      there.delete(identity(row))
      return !other || !isSame(row, other)
    })
    yield { compared: here.length, missing, surplus: [...there.values()] }
    if (isLast) return
    after = last
  }
}

function isSame(row: Row, other: Row): boolean {
  const columns = Object.keys(row)
  return (
    columns.length === Object.keys(other).length && columns.every((column) => row[column] === other[column])
  )
}
