import Sqlite from 'better-sqlite3'
import type { Fixture } from './fixture.ts'
import { databaseFile } from './servers.ts'

/** Milliseconds; less than it takes to read each of a thousand commits once. */
const INTERVAL = 10

/**
 * Keeps committing irrelevant changes, as another process would, which invalidates what the server
 * has cached of the database. So each read of a thousand commits in turn is a first read.
 */
export async function invalidateCaches(fixture: Fixture): Promise<() => Promise<string | undefined>> {
  const db = new Sqlite(databaseFile(fixture), { timeout: 1_000 })
  db.pragma('synchronous = off')
  // An update without a change of value would not be a commit.
  const change = db.prepare(`update users set created_at = created_at + 1 where name_key = 'alice'`)
  let failure: string | undefined
  const timer = setInterval(() => {
    try {
      change.run()
    } catch (error) {
      failure = `cannot invalidate the caches: ${error}`
    }
  }, INTERVAL)
  return async () => {
    clearInterval(timer)
    db.close()
    return failure
  }
}
