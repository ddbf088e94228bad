import { createHash } from 'node:crypto'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import type { KyselyPlugin } from 'kysely'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { removeCommits } from '../../src/maintenance/prune.ts'
import type { Engine } from '../../src/store/engine.ts'
import { migrate } from '../../src/store/migrations.ts'
import { openEngine, type Store, type StoreOptions, storeOver } from '../../src/store/store.ts'
import { postgres, sqlite } from '../helpers/databases.ts'

/** A tenth of the statuses of `npm run soak -- query-plans`; the plans are the same. */
const STATUSES = Number(process.env.QUERY_PLAN_STATUSES ?? 100_000)
const [REPOSITORIES, CONTEXTS] = [1_000, 10]
const COMMITS = STATUSES / REPOSITORIES / CONTEXTS
const USERS = 2_000
const shaOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 40)

/** Returns statements that fill a database. The dialects differ in `numbers` and `hex`. */
function filling(numbers: (name: string, count: number) => string, hex: (text: string) => string): string[] {
  return [
    `insert into users (name, name_key, created_at)
      select 'user' || n, 'user' || n, 1 from ${numbers('u', USERS)}`,
    `insert into repositories (owner, owner_key, name, name_key, visibility, object_format, created_at)
      select 'user' || n, 'user' || n, 'repo', 'repo', case when n % 2 = 0 then 'public' else 'private' end, 'sha1', 1
      from ${numbers('r', REPOSITORIES)}`,
    `insert into collaborators (repository_id, user_id, permission)
      select r.n, u.n, 'read' from ${numbers('r', REPOSITORIES)}, ${numbers('u', 5)}`,
    `insert into tokens (id, user_id, name, prefix, hash, scopes, created_at)
      select 'token' || n, n, 'ci', 'cst_', 'hash' || n, 'repo', 1 from ${numbers('u', USERS)}`,
    `insert into sessions (hash, user_id, created_at, seen_at)
      select 'session' || n, n, 4000000000, 4000000000 from ${numbers('u', USERS)}`,
    `insert into auth_failures (address, failures, ends_at)
      select '192.0.2.' || n, 1, ${Date.now() + 200_000} from ${numbers('a', 5_000)}`,
    `insert into statuses (repository_id, sha, context, id, state, created_at, updated_at)
      select r.n, ${hex("r.n || '/' || c.n")}, 'context ' || x.n, '0190b2c4-7b1e-7000-8000-000000000000', 'success', 1, 1
      from ${numbers('r', REPOSITORIES)}, ${numbers('c', COMMITS)}, ${numbers('x', CONTEXTS)}
      order by 1, 2, 3`,
    'analyze',
  ]
}

interface Statement {
  sql: string
  values: readonly unknown[]
}

/** Returns a store that records every statement. */
function recording(engine: Engine): { store: Store; statements: Statement[] } {
  const statements: Statement[] = []
  const recorder: KyselyPlugin = {
    transformQuery({ node, queryId }) {
      const { sql, parameters } = engine.kysely.getExecutor().compileQuery(node, queryId)
      statements.push({ sql, values: parameters })
      return node
    },
    transformResult: async ({ result }) => result,
  }
  const store = storeOver(
    {
      ...engine,
      kysely: engine.kysely.withPlugin(recorder),
      read(query, params) {
        statements.push({ sql: query.sql, values: query.bind(params) })
        return engine.read(query, params)
      },
      write(query, params, ...rest) {
        statements.push({ sql: query.sql, values: query.bind(params) })
        return engine.write(query, params, ...rest)
      },
      writeLimited(write, params, group) {
        for (const { sql, bind } of [write.count, write.upsert, write.replace])
          statements.push({ sql, values: bind(params) })
        // Another context, because the statement is explained after the report is stored.
        const { sql, bind } = write.upsertWithin
        const added = { ...params, context: 'never reported', limit: write.limit }
        statements.push({ sql, values: bind(added) })
        return engine.writeLimited(write, params, group)
      },
    },
    '/nonexistent',
  )
  return { store, statements }
}

const SHA = shaOf('500/5')
const NEW_SHA = shaOf('new')
const report = {
  repositoryId: 500,
  context: 'context 3',
  state: 'failure',
  description: null,
  targetUrl: null,
} as const

/** What requests read and write, by purpose. */
const requests: Record<string, (store: Store) => Promise<unknown>> = {
  authorization: (store) => store.access.look('192.0.2.7', 'hash77', 'user500', 'repo'),
  'a first report': (store) => store.statuses.report({ ...report, sha: NEW_SHA }),
  'another report': (store) => store.statuses.report({ ...report, sha: SHA }),
  'whether a commit has statuses': (store) => store.statuses.any(500, SHA),
  'whether a new commit has statuses': (store) => store.statuses.any(500, 'f'.repeat(40)),
  'all statuses of a commit': (store) => store.statuses.list(500, SHA),
  'counts of a commit': (store) => store.statuses.counts(500, SHA),
  'some statuses of a commit': (store) => store.statuses.listPart(500, SHA, 'context 3', 100),
  'a failure': (store) => store.failures.count('192.0.2.9', { limit: 30, window: 300 }),
  'a reservation and its release': async (store) => {
    const reservation = await store.failures.reserve('192.0.2.10', { limit: 30, window: 300 })
    await reservation?.release()
  },
  'a budget': (store) => store.failures.find('192.0.2.9'),
  'last use of a token': (store) => store.tokens.touch(new Map([['token9', 5]])),
  'a session': (store) => store.sessions.use('session9'),
  'a repository on a page': (store) => store.listing.find(7, 'user500', 'repo'),
  'a batch of pruning': (store) => removeCommits(store.engine, 500, [SHA, NEW_SHA], 1),
  'a user signing in': (store) => store.users.find('user9'),
}

async function open(t: Test, options: StoreOptions) {
  const engine = await openEngine({ ...options, patient: true })
  t.teardown(() => engine.close())
  await migrate(engine)
  return engine
}

t.test(`SQLite: requests neither scan nor sort a table of ${STATUSES} statuses`, async (t) => {
  const options = await sqlite.create(t)
  const engine = await open(t, options)
  const database = new Sqlite(join(options.dataDir, 'commit-status.db'))
  t.teardown(() => database.close())
  database.function('sha_of', (text) => shaOf(String(text)))
  database.pragma('synchronous = off')
  const numbers = (name: string, count: number) => `(
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count}) select n from numbers
  ) as ${name}`
  for (const statement of filling(numbers, (text) => `sha_of(${text})`)) database.exec(statement)

  const bytes = database
    .prepare<[], number>(`select sum(pgsize) from dbstat where name = 'statuses'`)
    .pluck()
    .get()
  t.comment(`SQLite: ${(bytes ?? 0) / STATUSES} bytes for each status`)

  const { store, statements } = recording(engine)
  for (const [name, request] of Object.entries(requests)) {
    statements.length = 0
    await request(store)
    t.ok(statements.length > 0, name)
    for (const { sql, values } of statements) {
      const rows = database.prepare<unknown[], { detail: string }>(`explain query plan ${sql}`).all(...values)
      const plan = rows.map(({ detail }) => detail).join('\n')
      // Subqueries are not tables: the single row of parameters, and the contexts to count.
      t.notMatch(
        plan,
        /^SCAN (?!asked\b|contexts\b|CONSTANT ROW\b|\(subquery|excluded)/m,
        `${name}: scans no table`,
      )
      t.notMatch(plan, /TEMP B-TREE/, `${name}: does not sort`)
    }
  }
})

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  /** Since PostgreSQL 18. */
  'Index Searches'?: number
  Plans?: PlanNode[]
}

t.test(`PostgreSQL: requests read few rows of a table of ${STATUSES} statuses`, async (t) => {
  const options = await postgres.create(t)
  const engine = await open(t, options)
  const client = new Client({ connectionString: options.databaseUrl ?? '' })
  await client.connect()
  t.teardown(() => client.end())
  const numbers = (name: string, count: number) => `generate_series(1, ${count}) as ${name}(n)`
  const hex = (text: string) => `left(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), 40)`
  for (const statement of filling(numbers, hex)) await client.query(statement)

  const { rows: sizes } = await client.query(
    `select pg_relation_size('statuses') as heap, pg_indexes_size('statuses') as indexes`,
  )
  t.comment(
    `PostgreSQL: ${sizes[0].heap / STATUSES} bytes for each status and ${sizes[0].indexes / STATUSES} for its index`,
  )

  const { store, statements } = recording(engine)
  for (const [name, request] of Object.entries(requests)) {
    statements.length = 0
    await request(store)
    t.ok(statements.length > 0, name)
    for (const { sql, values } of statements) {
      await client.query('begin')
      const { rows } = await client.query(`explain (analyze, format json) ${sql}`, [...values])
      await client.query('rollback')
      const nodes = flatten(rows[0]['QUERY PLAN'][0].Plan)
      for (const node of nodes) {
        t.notMatch(node['Node Type'], /Seq Scan/, `${name}: no scan of ${node['Relation Name']}`)
        const read = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
        t.ok(read <= 30 * CONTEXTS, `${name}: ${node['Node Type']} reads ${read} rows`)
      }
    }
  }
})

t.test('PostgreSQL: the same steps for a private repository and a missing one', async (t) => {
  const options = await postgres.create(t)
  const engine = await open(t, options)
  const client = new Client({ connectionString: options.databaseUrl ?? '' })
  await client.connect()
  t.teardown(() => client.end())
  const numbers = (name: string, count: number) => `generate_series(1, ${count}) as ${name}(n)`
  for (const statement of filling(numbers, () => "'sha'").filter((text) => !/statuses/.test(text)))
    await client.query(statement)
  const { store, statements } = recording(engine)

  /** Returns the number of executions and of index searches of each node of the plan. */
  const steps = async (request: () => Promise<unknown>) => {
    statements.length = 0
    await request()
    const [{ sql, values } = { sql: '', values: [] }] = statements
    const { rows } = await client.query(`explain (analyze, format json) ${sql}`, [...values])
    const nodes = flatten(rows[0]['QUERY PLAN'][0].Plan)
    return nodes.map((node) => [node['Relation Name'], node['Actual Loops'], node['Index Searches']])
  }
  // Repositories with odd ids are private, and user 8 is not a collaborator of any.
  for (const hash of [null, 'hash8']) {
    const look = (name: string) => steps(() => store.access.look('192.0.2.7', hash, 'user501', name))
    t.same(await look('repo'), await look('none'), `${hash}`)
  }
  for (const userId of [null, 8]) {
    const find = (name: string) => steps(() => store.listing.find(userId, 'user501', name))
    t.same(await find('repo'), await find('none'), `${userId}`)
  }
})

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)]
}
