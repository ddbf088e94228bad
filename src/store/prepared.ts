import type { Compilable, InferResult } from 'kysely'

/** A query compiled once. */
export interface Prepared<Params, Row> {
  readonly sql: string
  /** The values of one call, in the order of the query's placeholders. */
  bind(params: Params): unknown[]
  /** Never there: only says what a row looks like. */
  readonly row?: Row
}

type RowOf<Query> = Query extends Compilable ? InferResult<Query>[number] : never

/** Stands for a parameter while a query is built. */
class Placeholder {
  readonly name: string | symbol
  constructor(name: string | symbol) {
    this.name = name
  }
}

/**
 * Compiles a query once, so that a call costs neither building nor compiling it.
 *
 * @example
 * const byName = prepare<{ key: string }>()((p) =>
 *   db.selectFrom('users').selectAll().where('name_key', '=', p.key),
 * )
 * await engine.read(byName, { key: 'alice' })
 */
export function prepare<Params extends object>() {
  return <Query extends Compilable>(build: (params: Params) => Query): Prepared<Params, RowOf<Query>> => {
    const placeholders = new Proxy(Object.create(null), { get: (_target, name) => new Placeholder(name) })
    const { sql, parameters } = build(placeholders).compile()
    return {
      sql,
      bind: (params) =>
        parameters.map((value) => (value instanceof Placeholder ? Reflect.get(params, value.name) : value)),
    }
  }
}
