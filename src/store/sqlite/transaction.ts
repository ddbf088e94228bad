import type { Connection } from './connection.ts'
import { translateError } from './driver-errors.ts'

interface Statement {
  sql: string
  values: readonly unknown[]
}

/** What a statement of a group commit returned or threw. */
export type Outcome = { rows: unknown[] } | { error: unknown }

/**
 * Runs all statements in one transaction. One that fails does not affect the others.
 *
 * @throws the error of SQLite if it rolled back the whole transaction (disk full, out of memory), or cannot commit
 */
export function commitTogether(connection: Connection, statements: readonly Statement[]): Outcome[] {
  const { raw } = connection
  // From here until the commit nothing else writes.
  connection.prepare('begin immediate').run()
  try {
    const outcomes = statements.map(({ sql, values }): Outcome => {
      try {
        const statement = connection.prepare(sql)
        if (statement.reader) return { rows: statement.all(...values) }
        statement.run(...values)
        return { rows: [] }
      } catch (error) {
        if (!raw.inTransaction) throw error
        return { error: translateError(error) }
      }
    })
    connection.prepare('commit').run()
    return outcomes
  } catch (error) {
    if (raw.inTransaction) raw.exec('rollback')
    throw error
  }
}
