import { setTimeout } from 'node:timers/promises'
import Sqlite from 'better-sqlite3'
import { ForeignKeyViolation, StoreUnavailable } from '../engine.ts'

/** What result codes mean to an administrator, by primary code. */
const MEANINGS: Record<string, string> = {
  FULL: 'the disk is full',
  IOERR: 'the disk reported an error, or is full',
  READONLY: 'the database or its folder cannot be written',
  CANTOPEN: 'the database or a file beside it cannot be opened',
  BUSY: 'another process has kept the database locked for too long',
  CORRUPT: 'the database is damaged ("check" reports where): restore the newest backup',
  NOTADB: 'the file is not a database: restore the newest backup',
}

/** Milliseconds for which a statement waits for writes of other processes. */
export const BUSY_TIMEOUT = 5_000

/**
 * Runs `work`, and again while another process holds the lock that it needs.
 *
 * SQLite's own busy timeout blocks the event loop, and its increasing pauses let one process starve
 * another. Short random pauses do neither.
 *
 * @throws StoreUnavailable if the lock is not available within 5 s, or if the database cannot be
 * read or written
 */
export async function retryWhileBusy<T>(work: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + BUSY_TIMEOUT
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw translateError(error)
      await setTimeout(1 + 2 * Math.random())
    }
  }
}

/**
 * Returns StoreUnavailable for an error of the database file or its disk, ForeignKeyViolation for a
 * reference to a missing row, and any other error unchanged.
 */
export function translateError(error: unknown): unknown {
  if (!(error instanceof Sqlite.SqliteError)) return error
  if (error.code === 'SQLITE_CONSTRAINT_FOREIGNKEY')
    return new ForeignKeyViolation('SQLite', { cause: error })
  const [, kind = ''] =
    /^SQLITE_(BUSY|LOCKED|IOERR|FULL|CANTOPEN|READONLY|CORRUPT|NOTADB|PROTOCOL)/.exec(error.code) ?? []
  if (kind === '') return error
  const meaning = MEANINGS[kind]
  return new StoreUnavailable(`SQLite: ${error.code}${meaning ? `: ${meaning}` : ''}`, { cause: error })
}

function isBusy(error: unknown): boolean {
  return error instanceof Sqlite.SqliteError && /^SQLITE_(BUSY|LOCKED)/.test(error.code)
}
