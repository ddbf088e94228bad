import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { Client } from 'pg'
import { MAX_MOVES } from '../../src/store/repositories/branch-moves.ts'
import type { StoreOptions } from '../../src/store/store.ts'
import { newId } from '../../src/store/time.ts'

/** Statuses per commit. */
export const CONTEXTS = 10
/** Commits per statement to PostgreSQL. */
const BATCH = 50_000

/** A repository of alice to whose branch `main` commits were pushed, one at a time. */
export interface PushedRepository {
  id: number
  /** Its newest commits with statuses, oldest first. */
  reported: string[]
  /** Those that were pushed after them, without statuses. The last one is the tip. */
  unreported: string[]
}

/** A push of one commit. */
export interface Push {
  repositoryId: number
  sha: string
  isReported: boolean
}

/** What the databases write differently. */
interface Words {
  newId: string
  /** Seconds since the epoch. */
  now: string
}

/**
 * Returns pushes to repositories in their order. At first each gets as many as are recorded of a
 * branch, of which one has statuses, so that pages read as much of few statuses as of many. Then come
 * random commits to each repository in turn, and the newest ones.
 *
 * @param count of commits with statuses, beside those first ones
 */
export function pushesTo(repositories: readonly PushedRepository[], count: number): Push[] {
  const randomPush = (repositoryId: number, isReported: boolean) => ({
    repositoryId,
    sha: randomBytes(20).toString('hex'),
    isReported,
  })
  const pushesOf = (list: 'reported' | 'unreported') =>
    repositories.flatMap(({ id, [list]: commits }) =>
      commits.map((sha) => ({ repositoryId: id, sha, isReported: list === 'reported' })),
    )
  const first = repositories.flatMap(({ id }) =>
    Array.from({ length: MAX_MOVES }, (_, index) => randomPush(id, index === 0)),
  )
  const newest = pushesOf('reported').slice(-count)
  const older = Array.from({ length: count - newest.length }, (_, index) =>
    randomPush(repositories[index % repositories.length]?.id ?? 0, true),
  )
  return [...first, ...older, ...newest, ...pushesOf('unreported')]
}

/**
 * Writes what pushes, a second apart, and the reports on their commits would leave: 10 statuses per
 * commit, in the order of the key and in one statement, moves of the branch and events.
 *
 * @returns bytes of the table of statuses and its indexes per status
 */
export async function fill({ dataDir, databaseUrl }: StoreOptions, pushes: readonly Push[]): Promise<number> {
  const bytes = databaseUrl
    ? await fillPostgres(databaseUrl, pushes)
    : fillSqlite(join(dataDir, 'commit-status.db'), pushes)
  return bytes / CONTEXTS / pushes.filter(({ isReported }) => isReported).length
}

/** Returns statements that fill tables from `bench_pushes`, numbered by `n`, and `bench_contexts`. */
function insertions({ newId, now }: Words): string[] {
  const pushes = `(select n, repository_id, sha,
      coalesce(lag(sha) over (partition by repository_id order by n), '${'0'.repeat(40)}') as old_sha,
      row_number() over (partition by repository_id order by n desc) as age
    from bench_pushes)`
  const details = `'{"updates":[{"ref":"refs/heads/main","old":"' || old_sha || '","new":"' || sha || '"}]}'`
  const newest = '(select max(n) from bench_pushes)'
  return [
    // Pushes to a repository come after its creation.
    `update repositories set created_at = created_at - ${newest} - 2`,
    `insert into statuses (repository_id, sha, context, id, state, description, target_url, created_at, updated_at)
      select repository_id, sha, 'ci/check-' || number, ${newId}, 'success', '412 tests passed in ' || number || ' s',
        'https://ci.example.org/jobs/' || number, ${now}, ${now}
      from bench_pushes cross join bench_contexts where reported = 1 order by repository_id, sha, number`,
    `insert into branch_moves (repository_id, ref, push_id, old_id, new_id)
      select repository_id, 'refs/heads/main', n, old_sha, sha from ${pushes} as pushes where age <= ${MAX_MOVES}`,
    `insert into audit_events (time, actor, user_id, user_name, user_key, token_id, token_name, address, action, object,
        repository_key, repository_id, details)
      select (${now} - ${newest} + n) * 1000, 'user', users.id, users.name, name_key, tokens.id, tokens.name, '192.0.2.1',
        'push', owner || '/' || repository, owner_key || '/' || repository_key, repository_id, ${details}
      from ${pushes} as pushes
      join (select id, owner, owner_key, name as repository, name_key as repository_key from repositories)
        as repositories on repositories.id = repository_id
      cross join users cross join (select * from tokens order by id limit 1) as tokens order by n`,
  ]
}

function fillSqlite(file: string, pushes: readonly Push[]): number {
  const db = new Sqlite(file)
  try {
    // No other process has the database open, and it is discarded after a crash. The server sets
    // all of these again.
    for (const setting of ['journal_mode', 'synchronous', 'foreign_keys']) db.pragma(`${setting} = off`)
    db.function('new_id', newId)
    db.exec(`create temp table bench_pushes (n integer primary key, repository_id integer, sha text, reported integer);
      create temp table bench_contexts (number integer primary key)`)
    db.transaction(() => {
      const addPush = db.prepare('insert into bench_pushes values (?, ?, ?, ?)')
      for (const [index, { repositoryId, sha, isReported }] of pushes.entries())
        addPush.run(index + 1, repositoryId, sha, Number(isReported))
      // The statuses are read in its order.
      db.exec('create unique index bench_keys on bench_pushes (repository_id, sha, reported)')
      const addContext = db.prepare('insert into bench_contexts values (?)')
      for (let number = 0; number < CONTEXTS; number++) addContext.run(number)
      for (const statement of insertions({ newId: 'new_id()', now: 'unixepoch()' })) db.exec(statement)
    })()
    return Number(
      db.prepare(`select sum(pgsize) from dbstat where name = 'statuses' and aggregate = true`).pluck().get(),
    )
  } finally {
    db.close()
  }
}

async function fillPostgres(url: string, pushes: readonly Push[]): Promise<number> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    // Skips the foreign key checks: the repositories exist.
    await client.query('set session_replication_role = replica')
    await client.query(
      'create temp table bench_pushes (n bigint primary key, repository_id bigint, sha text collate "C", reported int)',
    )
    for (let from = 0; from < pushes.length; from += BATCH) {
      const batch = pushes.slice(from, from + BATCH)
      await client.query(
        'insert into bench_pushes select $1 + n, repository_id, sha, reported::int from unnest($2::bigint[], $3::text[], $4::boolean[]) with ordinality as pushes (repository_id, sha, reported, n)',
        [
          from,
          batch.map(({ repositoryId }) => repositoryId),
          batch.map(({ sha }) => sha),
          batch.map(({ isReported }) => isReported),
        ],
      )
    }
    await client.query(
      `create temp table bench_contexts as select number from generate_series(0, ${CONTEXTS - 1}) as number`,
    )
    await client.query('analyze bench_pushes')
    const now = 'extract(epoch from now())::bigint'
    for (const statement of insertions({ newId: 'uuidv7()::text', now })) await client.query(statement)
    await client.query('vacuum analyze')
    const { rows } = await client.query(`select pg_total_relation_size('statuses') as bytes`)
    return Number(rows[0].bytes)
  } finally {
    await client.end()
  }
}
