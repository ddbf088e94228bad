import Sqlite from 'better-sqlite3'

/**
 * Locks a file, which is created if it is missing. The lock ends with the process, however that
 * ends: SQLite locks files by `fcntl`, which Node.js does not offer.
 *
 * @returns the function that unlocks it; null if another process holds the lock
 */
export function lockFile(path: string): (() => void) | null {
  const database = new Sqlite(path, { timeout: 0 })
  try {
    // Without a second file, which a killed process would leave.
    database.exec('pragma journal_mode = memory; begin exclusive')
    return () => database.close()
  } catch (error) {
    database.close()
    if (error instanceof Sqlite.SqliteError && error.code.startsWith('SQLITE_BUSY')) return null
    throw error
  }
}
