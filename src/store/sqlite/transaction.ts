import { WrittenTooLate } from '../engine.ts'
import type { Connection } from './connection.ts'
import { translateError } from './driver-errors.ts'

/** A statement of a group commit, and what its caller waits for. */
export interface PendingWrite {
  sql: string
  values: readonly unknown[]
  /** Returns whether it must not be made any more. */
  isLate(): boolean
  resolve(rows: unknown[]): void
  reject(error: unknown): void
}

/**
 * Runs all statements in one transaction. One that fails does not affect the others.
 *
 * @returns functions that tell the callers what their statements returned or threw
 * @throws the error of SQLite if it rolled back the whole transaction (disk full, out of memory),
 * or cannot commit
 */
export function commitTogether(connection: Connection, writes: readonly PendingWrite[]): (() => void)[] {
  const { raw } = connection
  // From here until the commit nothing else writes.
  connection.prepare('begin immediate').run()
  try {
    const acknowledgments = writes.map(({ sql, values, isLate, resolve, reject }) => {
      if (isLate())
        return () => reject(new WrittenTooLate('SQLite: another process kept the database locked'))
      try {
        const statement = connection.prepare(sql)
        if (!statement.reader) statement.run(...values)
        const rows = statement.reader ? statement.all(...values) : []
        return () => resolve(rows)
      } catch (error) {
        if (!raw.inTransaction) throw error
        return () => reject(translateError(error))
      }
    })
    connection.prepare('commit').run()
    return acknowledgments
  } catch (error) {
    if (raw.inTransaction) raw.exec('rollback')
    throw error
  }
}
