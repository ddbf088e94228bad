import Sqlite, { type Statement } from 'better-sqlite3'
import { Client } from 'pg'
import type { Test } from 'tap'

/**
 * Records the statements that this process sends to databases, until the teardown. A pragma of SQLite
 * is none: it reads no table.
 */
export function recordStatements(t: Test): string[] {
  const statements: string[] = []
  const database = new Sqlite(':memory:')
  const prototype: Statement = Object.getPrototypeOf(database.prepare('select 1'))
  database.close()
  for (const method of ['all', 'get', 'run', 'iterate'] as const) {
    const original: (...values: unknown[]) => unknown = prototype[method]
    t.capture(prototype, method, function (this: Statement, ...values: unknown[]) {
      if (!/^pragma/i.test(this.source)) statements.push(this.source)
      return original.apply(this, values)
    })
  }
  const query: (...values: unknown[]) => unknown = Client.prototype.query
  t.capture(Client.prototype, 'query', function (this: Client, ...values: unknown[]) {
    const [sent] = values
    statements.push(typeof sent === 'object' && sent && 'text' in sent ? String(sent.text) : String(sent))
    return query.apply(this, values)
  })
  return statements
}
