import { setTimeout } from 'node:timers/promises'
import Sqlite from 'better-sqlite3'
import { ReferenceGone, StoreUnavailable } from '../engine.ts'

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
export async function whenFree<T>(work: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw asFault(error)
      await setTimeout(1 + 2 * Math.random())
    }
  }
}

/**
 * A fault of the database file or its disk becomes StoreUnavailable, a row that refers to nothing ReferenceGone; any other
 * error stays what it is.
 */
export function asFault(error: unknown): unknown {
  if (!(error instanceof Sqlite.SqliteError)) return error
  if (error.code === 'SQLITE_CONSTRAINT_FOREIGNKEY') return new ReferenceGone('SQLite', { cause: error })
  const away = /^SQLITE_(BUSY|LOCKED|IOERR|FULL|CANTOPEN|READONLY|CORRUPT|NOTADB|PROTOCOL)/
  return away.test(error.code) ? new StoreUnavailable(`SQLite: ${error.code}`, { cause: error }) : error
}

function isBusy(error: unknown): boolean {
  return error instanceof Sqlite.SqliteError && /^SQLITE_(BUSY|LOCKED)/.test(error.code)
}
