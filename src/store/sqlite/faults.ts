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
      if (!isBusy(error) || performance.now() > deadline) throw asUnavailable(error)
      await setTimeout(1 + 2 * Math.random())
    }
  }
}

/** A row that refers to nothing becomes ReferenceGone. */
export function asReferenceGone(error: unknown): unknown {
  const gone = error instanceof Sqlite.SqliteError && error.code === 'SQLITE_CONSTRAINT_FOREIGNKEY'
  return gone ? new ReferenceGone('SQLite', { cause: error }) : error
}

/** A fault of the database file or its disk, as opposed to one of the statement, becomes StoreUnavailable. */
function asUnavailable(error: unknown): unknown {
  const away = /^SQLITE_(BUSY|LOCKED|IOERR|FULL|CANTOPEN|READONLY|CORRUPT|NOTADB|PROTOCOL)/
  if (!(error instanceof Sqlite.SqliteError) || !away.test(error.code)) return error
  return new StoreUnavailable(`SQLite: ${error.code}`, { cause: error })
}

function isBusy(error: unknown): boolean {
  return error instanceof Sqlite.SqliteError && /^SQLITE_(BUSY|LOCKED)/.test(error.code)
}
