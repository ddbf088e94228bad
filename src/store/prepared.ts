import { type Compilable, type CompiledQuery, type InferResult, sql } from 'kysely'

/** A statement of one call. */
export interface Statement<Params> {
  /** Names the statement on a connection that keeps it prepared. */
  readonly name: string
  readonly sql: string
  /** Returns the values of one call in the order of the query's placeholders. */
  bind(params: Params): unknown[]
}

/** A compiled query. */
export interface Prepared<Params, Row> extends Statement<Params> {
  /**
   * Compiles the query with columns of the table `batch` in place of its parameters; missing if the
   * query has no parameters or is more than a `select`.
   */
  readonly ofBatch?: () => QueryOfBatch<Params>
  /** The statement of many calls, where it is not the query for each of them. */
  readonly batch?: WritingBatch<Params>
  /** Returns whether a call must not write any more; missing if it always may. */
  readonly isLate?: (params: Params) => boolean
  /** Never set; carries the type of a row. */
  readonly row?: Row
}

/** A query of a table `batch`, which has a row for each call and a column for each parameter. */
export interface QueryOfBatch<Params> {
  readonly sql: string
  /** The values of its placeholders, the same for all calls. */
  readonly constants: readonly unknown[]
  /** Where the query of one call has placeholders: the parameter, or undefined for a constant. */
  readonly parameters: readonly (keyof Params | undefined)[]
}

/** A statement that writes what several calls do, and waits for locks only for a moment. */
interface WritingBatch<Params> {
  /** The same for a single call. */
  readonly single: Statement<Params>
  /** Each row begins with the number of its call, from 1. A call has one row at most. */
  readonly sql: string
  bind(calls: readonly Params[]): unknown[]
  /** Returns whether a call may be one of several now. */
  mayShare(params: Params): boolean
  /** Names the row that a call writes: calls with the same name are done in order of arrival. */
  rowOf(params: Params): string
}

type RowOf<Query> = Query extends Compilable ? InferResult<Query>[number] : never

let prepared = 0

/** Takes the place of a parameter while a query is built. */
class Placeholder<Params> {
  readonly name: keyof Params
  constructor(name: keyof Params) {
    this.name = name
  }
}

/**
 * Compiles a query once, so that calls neither build nor compile it.
 *
 * @example
 * const byName = prepare<{ key: string }>()((p) =>
 *   db.selectFrom('users').selectAll().where('name_key', '=', p.key),
 * )
 * await engine.read(byName, { key: 'alice' })
 */
export function prepare<Params extends object>() {
  return <Query extends Compilable>(build: (params: Params) => Query): Prepared<Params, RowOf<Query>> => {
    const { sql, parameters, query } = compileWith(build, (name) => new Placeholder<Params>(name))
    const isPlaceholder = (value: unknown): value is Placeholder<Params> => value instanceof Placeholder
    const names = parameters.map((value) => (isPlaceholder(value) ? value.name : undefined))
    const isForBatches = query.kind === 'SelectQueryNode' && names.some((name) => name !== undefined)
    return {
      name: `s${prepared++}`,
      sql,
      bind: (params) => names.map((name, index) => (name === undefined ? parameters[index] : params[name])),
      ...(isForBatches && { ofBatch: () => ({ ...compileOfBatch(build), parameters: names }) }),
    }
  }
}

function compileOfBatch<Params extends object>(build: (params: Params) => Compilable) {
  const { sql: text, parameters } = compileWith(build, (name) => sql.ref(`batch.${String(name)}`))
  return { sql: text, constants: parameters }
}

/**
 * Compiles a query with something else in place of its parameters. `build` is type-checked with the
 * parameters' types, so it can only ask for their names. Kysely passes on what it gets like any
 * other value.
 */
function compileWith<Params extends object>(
  build: (params: Params) => Compilable,
  replace: (name: keyof Params) => unknown,
): CompiledQuery {
  const replaced = new Proxy({} as Params, { get: (_target, name) => replace(name as keyof Params) })
  return build(replaced).compile()
}
