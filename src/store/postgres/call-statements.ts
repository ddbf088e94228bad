import type { Prepared, QueryOfBatch, Statement } from '../prepared.ts'
import type { Session } from './connections.ts'

/**
 * Maximum number of rows that a batch reads for one call. Calls that have more are made again,
 * alone: a commit may have 1,000 contexts of 7 KB, for which all others would wait.
 */
export const MAX_ROWS = 50
/** Maximum number of rows of a batch of reads: at most 4 MB. Calls that it cuts off are made again. */
const MAX_BATCH_ROWS = 500

/**
 * The statements that make calls of one query, each on a connection that keeps them prepared: that
 * of one call, that of several and, if it writes, that of one call which waits for locks only for a
 * moment. They reject with untranslated errors of the database.
 */
export class CallStatements<Params, Row> {
  readonly #query: Prepared<Params, Row>
  /** undefined: not known before the types of a single call are; null: there is none. */
  #several: BatchStatement<Params> | null | undefined

  constructor(query: Prepared<Params, Row>) {
    this.#query = query
    this.#several = writingBatch(query) ?? (query.ofBatch ? undefined : null)
  }

  /** Whether several calls may share a statement, as far as that is known. */
  get mayBeShared(): boolean {
    return this.#several !== null
  }

  /** Whether several calls share a statement that writes. */
  get areWrites(): boolean {
    return this.#query.batch !== undefined
  }

  /** Names the row that a call writes; undefined if the order of calls does not matter. */
  rowOf(params: Params): string | undefined {
    return this.#query.batch?.rowOf(params)
  }

  /** Whether a call may share a statement now, as far as the others of it are concerned. */
  mayShare(params: Params): boolean {
    return this.#query.batch?.mayShare(params) ?? true
  }

  one(session: Session, params: Params): Promise<Row[]> {
    return this.#run(session, this.#query, params)
  }

  /** As `one`, but fails where a statement of several calls would: after a short wait for a lock. */
  oneBriefly(session: Session, params: Params): Promise<Row[]> {
    return this.#run(session, this.#query.batch?.single ?? this.#query, params)
  }

  /**
   * Returns the rows of each call, of fewer calls if they have too many rows; null if there is no
   * statement for several calls.
   */
  async several(session: Session, calls: readonly Params[]): Promise<Row[][] | null> {
    const [first] = calls
    if (this.#several === undefined && first !== undefined)
      this.#several = await this.#prepareSeveral(session, first)
    if (!this.#several) return null
    const { name, sql, bind, leading } = this.#several
    const result = await session.runForArrays({ name, text: sql, values: bind(calls), rowMode: 'array' })
    return rowsOfCalls<Row>(result, leading, calls.length)
  }

  async #run(session: Session, { name, sql, bind }: Statement<Params>, params: Params): Promise<Row[]> {
    const { rows } = await session.run({ name, text: sql, values: bind(params) })
    // The statement determines the rows; `prepare` inferred their type from the same query.
    return rows as Row[]
  }

  /** Returns the statement of several calls, which needs the types that a single one has. */
  async #prepareSeveral(session: Session, params: Params): Promise<BatchStatement<Params> | null> {
    const { name, ofBatch } = this.#query
    // Its rows are not used: the call reads them again with the others.
    await this.one(session, params)
    const text = 'select parameter_types::text[] as types from pg_prepared_statements where name = $1'
    const { rows } = await session.run<{ types: string[] }>({ text, values: [name] })
    return (ofBatch && readingBatch(name, ofBatch(), rows[0]?.types ?? [])) ?? null
  }
}

/** One statement for several calls. */
interface BatchStatement<Params> {
  readonly name: string
  readonly sql: string
  bind(calls: readonly Params[]): unknown[]
  /** Number of columns before those of the query. The first one is the number of the call, from 1. */
  readonly leading: number
}

/** The columns of a result and its rows, each an array. */
interface ResultRows {
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
function rowsOfCalls<Row>({ fields, rows }: ResultRows, leading: number, count: number): Row[][] {
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
