import type { Prepared, QueryOfBatch } from '../prepared.ts'

/**
 * Maximum number of rows that a batch reads for one call. Calls that have more are made again,
 * alone: a commit may have 1,000 contexts of 7 KB, for which all others would wait.
 */
export const MAX_ROWS = 50
/** Maximum number of rows of a batch of reads: at most 4 MB. Calls that it cuts off are made again. */
const MAX_BATCH_ROWS = 500

/** One statement for several calls. */
export interface BatchStatement<Params> {
  readonly name: string
  readonly sql: string
  bind(calls: readonly Params[]): unknown[]
  /** Number of columns before those of the query. The first one is the number of the call, from 1. */
  readonly leading: number
}

/** The columns of a result and its rows, each an array. */
export interface ResultRows {
  fields: readonly { name: string }[]
  rows: readonly (readonly unknown[])[]
}

/**
 * Returns the statement that runs a query for each of several calls, or undefined if there is none.
 *
 * The numbers of the rows keep them in the order of the query: nothing else promises that a join
 * does.
 *
 * @param types the types of the query's parameters
 */
export function readingBatch<Params>(
  name: string,
  { sql, constants, parameters }: QueryOfBatch<Params>,
  types: readonly string[],
): BatchStatement<Params> | undefined {
  const columns = new Map<keyof Params, string>()
  for (const [index, parameter] of parameters.entries()) {
    const type = types[index]
    if (parameter === undefined) continue
    // `unnest` would flatten an array.
    if (type === undefined || type.endsWith('[]')) return undefined
    if ((columns.get(parameter) ?? type) !== type) return undefined
    columns.set(parameter, type)
  }
  const names = [...columns.keys()]
  const arrays = [...columns.values()].map((type, index) => `$${constants.length + index + 1}::${type}[]`)
  const aliases = names.map((column) => `"${String(column)}"`)
  return {
    name: `${name}b`,
    sql: `select batch.call_number, one.*
      from unnest(${arrays.join(', ')}) with ordinality as batch (${aliases.join(', ')}, call_number)
      cross join lateral (
        select row_number() over () as row_number, one.* from (${sql}) as one limit ${MAX_ROWS + 1}
      ) as one
      order by batch.call_number, one.row_number
      limit ${MAX_BATCH_ROWS + 1}`,
    bind: (calls) => [...constants, ...names.map((column) => calls.map((params) => params[column]))],
    leading: 2,
  }
}

/** Returns the statement of several calls that write; undefined if each is one of its own. */
export function writingBatch<Params>({
  name,
  batch,
}: Prepared<Params, unknown>): BatchStatement<Params> | undefined {
  return batch && { name: `${name}b`, sql: batch.sql, bind: batch.bind, leading: 1 }
}

/** Returns the rows of each of `count` calls, in order; of fewer if the batch has too many rows. */
export function rowsOfCalls<Row>({ fields, rows }: ResultRows, leading: number, count: number): Row[][] {
  const names = fields.map(({ name }) => name)
  const ofCalls = Array.from({ length: count }, (): Record<string, unknown>[] => [])
  for (const cells of rows) {
    const row: Record<string, unknown> = {}
    for (let index = leading; index < names.length; index++) row[names[index] ?? ''] = cells[index]
    ofCalls[Number(cells[0]) - 1]?.push(row)
  }
  if (rows.length > MAX_BATCH_ROWS) ofCalls.length = Number(rows.at(-1)?.[0]) - 1
  // As for a single call, the statement determines the rows.
  return ofCalls as Row[][]
}
