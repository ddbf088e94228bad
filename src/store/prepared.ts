import type { Compilable, InferResult } from 'kysely'

/** A compiled query. */
export interface Prepared<Params, Row> {
  /** Names the statement on a connection that keeps it prepared. */
  readonly name: string
  readonly sql: string
  /** Returns the values of one call in the order of the query's placeholders. */
  bind(params: Params): unknown[]
  /** Never set; carries the type of a row. */
  readonly row?: Row
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
    // `build` is type-checked with the parameters' types, so it can only ask for their names. What
    // it gets are placeholders, which Kysely passes on like any other value.
    const placeholders = new Proxy({} as Params, {
      get: (_target, name) => new Placeholder<Params>(name as keyof Params),
    })
    const { sql, parameters } = build(placeholders).compile()
    const isPlaceholder = (value: unknown): value is Placeholder<Params> => value instanceof Placeholder
    const names = parameters.map((value) => (isPlaceholder(value) ? value.name : undefined))
    return {
      name: `s${prepared++}`,
      sql,
      bind: (params) => names.map((name, index) => (name === undefined ? parameters[index] : params[name])),
    }
  }
}
