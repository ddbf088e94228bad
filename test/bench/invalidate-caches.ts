import Sqlite from 'better-sqlite3'
import type { Fixture } from './fixture.ts'
import { databaseFile } from './servers.ts'

/** Milliseconds; less than it takes to read each of a thousand commits once. */
const STIR = 10

/**
 * Commits something of no interest again and again, as another process would: what a server remembers of the database
 * it then has to read anew. So a thousand commits in turn are each read as if for the first time.
 */
export async function stir(fixture: Fixture): Promise<() => Promise<string | undefined>> {
  const db = new Sqlite(databaseFile(fixture), { timeout: 1_000 })
  db.pragma('synchronous = off')
  // What is written as it was already is no commit.
  const change = db.prepare(`update users set created_at = created_at + 1 where name_key = 'alice'`)
  let fault: string | undefined
  const timer = setInterval(() => {
    try {
      change.run()
    } catch (error) {
      fault = `no commit beside: ${error}`
    }
  }, STIR)
  return async () => {
    clearInterval(timer)
    db.close()
    return fault
  }
}
