import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { Client } from 'pg'
import type { StoreOptions } from '../../src/store/store.ts'
import { newId } from '../../src/store/time.ts'

/** Statuses per commit. */
export const CONTEXTS = 10
/** Ids per statement to PostgreSQL. */
const BATCH = 50_000

/**
 * Writes `size` statuses, 10 per commit, in the order of the key and in one statement: first for
 * the commits of `named`, then for random ones. The rows equal those that as many reports would
 * leave.
 *
 * @returns bytes of the table and its indexes per status
 */
export async function fill(
  { dataDir, databaseUrl }: StoreOptions,
  repositoryId: number,
  named: string[],
  size: number,
): Promise<number> {
  const commits = named.slice(0, size / CONTEXTS)
  while (commits.length < size / CONTEXTS) commits.push(randomBytes(20).toString('hex'))
  commits.sort()
  const bytes = databaseUrl
    ? await fillPostgres(databaseUrl, repositoryId, commits)
    : fillSqlite(join(dataDir, 'commit-status.db'), repositoryId, commits)
  return bytes / size
}

/** @param id SQL of a new id @param now SQL of the time in seconds */
function insertion(repositoryId: number, id: string, now: string): string {
  return `insert into statuses (repository_id, sha, context, id, state, description, target_url, created_at, updated_at)
    select ${repositoryId}, sha, 'ci/check-' || n, ${id}, 'success', '412 tests passed in ' || n || ' s',
      'https://ci.example.org/jobs/' || n, ${now}, ${now}
    from bench_commits cross join bench_contexts order by sha, n`
}

function fillSqlite(file: string, repositoryId: number, commits: string[]): number {
  const db = new Sqlite(file)
  try {
    // No other process has the database open, and it is discarded after a crash. The server sets
    // all of these again.
    for (const setting of ['journal_mode', 'synchronous', 'foreign_keys']) db.pragma(`${setting} = off`)
    db.function('new_id', newId)
    db.exec(`create temp table bench_commits (sha text primary key) without rowid;
      create temp table bench_contexts (n integer primary key)`)
    db.transaction(() => {
      const addCommit = db.prepare('insert into bench_commits values (?)')
      for (const sha of commits) addCommit.run(sha)
      const addContext = db.prepare('insert into bench_contexts values (?)')
      for (let n = 0; n < CONTEXTS; n++) addContext.run(n)
      db.exec(insertion(repositoryId, 'new_id()', 'unixepoch()'))
    })()
    return Number(
      db.prepare(`select sum(pgsize) from dbstat where name = 'statuses' and aggregate = true`).pluck().get(),
    )
  } finally {
    db.close()
  }
}

async function fillPostgres(url: string, repositoryId: number, commits: string[]): Promise<number> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    // Skips the foreign key checks: the repository exists.
    await client.query('set session_replication_role = replica')
    await client.query('create temp table bench_commits (sha text collate "C" primary key)')
    for (let from = 0; from < commits.length; from += BATCH) {
      const batch = commits.slice(from, from + BATCH)
      await client.query('insert into bench_commits select unnest($1::text[])', [batch])
    }
    await client.query(
      `create temp table bench_contexts as select n from generate_series(0, ${CONTEXTS - 1}) as n`,
    )
    await client.query('analyze bench_commits')
    const seconds = 'extract(epoch from now())::bigint'
    await client.query(insertion(repositoryId, 'uuidv7()::text', seconds))
    await client.query('vacuum analyze statuses')
    const { rows } = await client.query(`select pg_total_relation_size('statuses') as bytes`)
    return Number(rows[0].bytes)
  } finally {
    await client.end()
  }
}
