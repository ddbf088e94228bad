import type { Connection } from './connection.ts'
import { translateError } from './driver-errors.ts'

/** Runs a statement and returns its rows. */
export type RunStatement = (sql: string, values: unknown[]) => unknown[]

/** What a member of a group commit returned or threw. */
export type Outcome = { rows: unknown[] } | { error: unknown }

interface TransactionEvents {
  /** The write lock is held: from now until the commit nothing else writes. */
  onBegin(): void
  onRollback(): void
}

/**
 * Runs all members in one transaction. A member whose statement fails does not affect the others.
 *
 * @throws the error of SQLite if it rolled back the whole transaction (disk full, out of memory), or cannot commit
 */
export function commitTogether(
  connection: Connection,
  members: readonly ((run: RunStatement) => unknown[])[],
  events: TransactionEvents,
): Outcome[] {
  const { raw } = connection
  const run: RunStatement = (sql, values) => {
    const statement = connection.prepare(sql)
    if (statement.reader) return statement.all(...values)
    statement.run(...values)
    return []
  }
  connection.prepare('begin immediate').run()
  try {
    events.onBegin()
    const outcomes = members.map((member): Outcome => {
      try {
        return { rows: member(run) }
      } catch (error) {
        if (!raw.inTransaction) throw error
        return { error: translateError(error) }
      }
    })
    connection.prepare('commit').run()
    return outcomes
  } catch (error) {
    events.onRollback()
    if (raw.inTransaction) raw.exec('rollback')
    throw error
  }
}
