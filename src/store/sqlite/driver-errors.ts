import { setTimeout } from 'node:timers/promises'
import Sqlite from 'better-sqlite3'
import { ForeignKeyViolation, StoreUnavailable } from '../engine.ts'

/** What a result code means to an administrator, by its beginning. */
const MEANINGS: Record<string, string> = {
  FULL: 'the disk is full',
  IOERR: 'the disk reports an error',
  READONLY: 'the database or its folder cannot be written',
  CANTOPEN: 'the database or a file beside it cannot be opened',
  BUSY: 'another process has kept the database locked for too long',
  CORRUPT: 'the database is damaged ("check" tells where): restore the newest backup',
  NOTADB: 'the file is not a database: restore the newest backup',
}

/** How long a statement waits for other processes' writes, in milliseconds. */
const PATIENCE = 5_000

/**
 * Runs `work` again until no other process holds the lock that it needs.
 *
 * SQLite's own busy timeout sleeps inside the event loop and lets waiting processes starve each other; a short random
 * pause outside of it does neither.
 *
 * @throws StoreUnavailable when the lock is not had within 5 s, or when the database cannot be read or written.
 */
export async function retryWhileBusy<T>(work: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE
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
 * A fault of the database file or its disk becomes StoreUnavailable, a row that refers to nothing ForeignKeyViolation; any other
 * error stays what it is.
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
