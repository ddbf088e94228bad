import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { writeBackup } from '../../src/maintenance/backup/write.ts'
import { readingBatch, writingBatch } from '../../src/store/postgres/call-statements.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { openEngine, type Store, type StoreOptions } from '../../src/store/store.ts'
import { postgres, sqlite } from '../helpers/databases.ts'
import {
  CONTEXTS,
  filling,
  postgresFilling,
  recording,
  requests,
  type Statement,
  shaOf,
} from '../helpers/request-statements.ts'

/** Few of the 1,000,000 statuses of `npm run soak -- query-plans`; the plans are the same. */
const STATUSES = Number(process.env.QUERY_PLAN_STATUSES ?? 30_000)

async function open(t: Test, options: StoreOptions) {
  const engine = await openEngine({ ...options, statementTimeout: false })
  t.teardown(() => engine.close())
  await migrate(engine)
  return engine
}

/**
 * Returns the statements of a backup that go on in a table after its first rows, the last one of each
 * table.
 */
async function goingOnInBackup(
  t: Test,
  store: Store,
  statements: Statement[],
): Promise<Map<string, Statement>> {
  statements.length = 0
  await writeBackup(store.engine, join(t.testdir(), 'backup'), () => {})
  const found = statements.flatMap((statement): [string, Statement][] => {
    const [, table] = /from "(\w+)"\s+where \(.+\) > \(/.exec(statement.sql) ?? []
    return table === undefined ? [] : [[table, statement]]
  })
  return new Map(found)
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
  for (const statement of filling(STATUSES, numbers, (text) => `sha_of(${text})`)) database.exec(statement)

  const bytes = database
    .prepare<[], number>(`select sum(pgsize) from dbstat where name = 'statuses'`)
    .pluck()
    .get()
  t.comment(`SQLite: ${(bytes ?? 0) / STATUSES} bytes for each status`)

  const { store, statements } = recording(engine)
  const prepared = statements.map(({ sql }) => sql)
  const asked: string[] = []
  for (const [name, request] of Object.entries(requests)) {
    statements.length = 0
    await request(store)
    t.ok(statements.length > 0, name)
    for (const { sql, values } of statements) {
      asked.push(sql)
      const rows = database.prepare<unknown[], { detail: string }>(`explain query plan ${sql}`).all(...values)
      // Of the newest events, a limit bounds how many are read in the order of the index.
      const bounded = name.startsWith('repositories that were pushed')
        ? ['SCAN audit_events USING INDEX audit_events_by_time', 'SCAN newest']
        : []
      const plan = rows
        .map(({ detail }) => detail)
        .filter((detail) => !bounded.includes(detail))
        .join('\n')
      if (name === 'the latest events of a repository' && sql.includes('"id" <'))
        t.match(plan, /time=\? AND id<\?\)/, 'it finds a position among the events of a millisecond')
      // Subqueries are not tables: rows of parameters, and what other subqueries return.
      t.notMatch(
        plan,
        /^SCAN (?!asked\b|json_each\b|reported\b|recorded\b|CONSTANT ROW\b|\(subquery)/m,
        `${name}: scans no table`,
      )
      t.notMatch(plan, /TEMP B-TREE/, `${name}: does not sort`)
    }
  }
  t.ok(
    asked.some((sql) => sql.includes('"audit_events"') && sql.includes('"id" <')),
    'a position is looked for by time and id',
  )
  // Parts of a query are prepared with it. What PostgreSQL alone runs is tested there.
  const isAsked = (sql: string) => asked.some((whole) => whole.includes(sql))
  const others = /"schema_migrations"|into "push_intents"/
  const missing = prepared.filter((sql) => !isAsked(sql) && !others.test(sql))
  t.strictSame(missing, [], 'every prepared query of the store is in `requests`')

  const backup = await goingOnInBackup(t, store, statements)
  t.ok(backup.has('statuses') && backup.has('audit_events') && backup.has('branch_moves'))
  for (const [table, { sql, values }] of backup) {
    const rows = database.prepare<unknown[], { detail: string }>(`explain query plan ${sql}`).all(...values)
    const plan = rows.map(({ detail }) => detail).join('\n')
    t.match(plan, /^SEARCH \w+ USING .*>/, `backup of ${table}: begins where the rows before it end`)
    t.notMatch(plan, /TEMP B-TREE/, `backup of ${table}: does not sort`)
  }
})

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Join Filter'?: number
  Plans?: PlanNode[]
}

t.test(`PostgreSQL: requests read few rows of a table of ${STATUSES} statuses`, async (t) => {
  const options = await postgres.create(t)
  const engine = await open(t, options)
  const client = new Client({ connectionString: options.databaseUrl ?? '' })
  await client.connect()
  t.teardown(() => client.end())
  for (const statement of postgresFilling(STATUSES)) await client.query(statement)

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
      // Otherwise the statistics below include earlier transactions.
      await client.query('select pg_stat_force_next_flush()')
      await client.query('begin')
      const { rows } = await client.query(`explain (analyze, format json) ${sql}`, [...values])
      // Plans do not show what functions do.
      const { rows: scans } = await client.query(
        'select relname, seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where seq_scan > 0 or idx_tup_fetch > $1',
        [MOST_ROWS],
      )
      t.same(scans, [], `${name}: neither scans a table nor reads many rows of one`)
      await client.query('rollback')
      checkPlan(t, name, rows[0]['QUERY PLAN'][0].Plan)
    }
  }

  const backup = await goingOnInBackup(t, store, statements)
  t.ok(backup.has('statuses') && backup.has('audit_events') && backup.has('branch_moves'))
  for (const [table, { sql, values }] of backup) {
    // A table of few pages is scanned.
    if (!LARGE_TABLES.includes(table)) continue
    const { rows } = await client.query(`explain (analyze, format json) ${sql}`, [...values])
    for (const node of flatten(rows[0]['QUERY PLAN'][0].Plan))
      t.match(node['Node Type'], /^(Limit|Index Scan)$/, `backup of ${table}: ${node['Node Type']}`)
  }
})

/** Their rows grow with use. */
const LARGE_TABLES = ['statuses', 'audit_events', 'branch_moves']

/**
 * Rows that one step of a plan may read, of many times more: those of 30 commits, or of the moves of a
 * branch for each call of a batch, which PostgreSQL may read all at once.
 */
const MOST_ROWS = 40 * CONTEXTS

/** Checks that a plan scans no table and reads few rows. */
function checkPlan(t: Test, name: string, plan: PlanNode): void {
  for (const node of flatten(plan)) {
    t.notMatch(node['Node Type'], /Seq Scan/, `${name}: no scan of ${node['Relation Name']}`)
    const read = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
    // Parameters are not rows of a table.
    if (node['Node Type'] === 'Values Scan') continue
    t.ok(read <= MOST_ROWS, `${name}: ${node['Node Type']} reads ${read} rows`)
  }
}

/** Calls of a batch: together they may read as many rows as one that reads the most. */
const CALLS = 8

t.test(`PostgreSQL: nor do batches of them, of a table of ${STATUSES} statuses`, async (t) => {
  const options = await postgres.create(t)
  const engine = await open(t, options)
  const client = new Client({ connectionString: options.databaseUrl ?? '' })
  await client.connect()
  t.teardown(() => client.end())
  for (const statement of postgresFilling(STATUSES)) await client.query(statement)
  const typesOf = async (name: string) => {
    const text = 'select parameter_types::text[] as types from pg_prepared_statements where name = $1'
    const { rows } = await client.query<{ types: string[] }>(text, [name])
    return rows[0]?.types ?? []
  }
  const literal = (value: unknown) => (value === null ? 'null' : client.escapeLiteral(String(value)))

  const { store, statements } = recording(engine)
  const alone: string[] = []
  for (const [name, request] of Object.entries(requests)) {
    statements.length = 0
    await request(store)
    for (const { call } of statements) {
      if (!call) continue
      const { query, params } = call
      await client.query(`prepare ${query.name} as ${query.sql}`)
      const ofBatch = query.ofBatch?.()
      const batch =
        writingBatch(query) ?? (ofBatch && readingBatch(query.name, ofBatch, await typesOf(query.name)))
      if (batch) {
        await client.query(`prepare ${batch.name} as ${batch.sql}`)
        const types = await typesOf(batch.name)
        const given = batch
          .bind(Array.from({ length: CALLS }, () => params))
          .map((value, index) =>
            Array.isArray(value) ? `array[${value.map(literal)}]::${types[index]}` : literal(value),
          )
        for (const mode of ['force_custom_plan', 'force_generic_plan']) {
          await client.query('select pg_stat_force_next_flush()')
          await client.query('begin')
          await client.query(`set local plan_cache_mode = ${mode}`)
          const { rows } = await client.query(
            `explain (analyze, format json) execute ${batch.name}(${given.join(', ')})`,
          )
          const { rows: scans } = await client.query(
            'select relname, seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where seq_scan > 0 or idx_tup_fetch > $1',
            [MOST_ROWS],
          )
          await client.query('rollback')
          t.same(scans, [], `${name}, ${mode}: neither scans a table nor reads many rows of one`)
          checkPlan(t, `${name}, ${mode}`, rows[0]['QUERY PLAN'][0].Plan)
        }
      } else alone.push(name)
      await client.query('deallocate all')
    }
  }
  const single = ['a failure', 'a reservation and its release', 'the version of the database']
  t.strictSame([...new Set(alone)], single, 'all others have a statement for several calls')
})

t.test('PostgreSQL: outdated statistics do not make requests compare more rows', async (t) => {
  const options = await postgres.create(t)
  const engine = await open(t, options)
  const client = new Client({ connectionString: options.databaseUrl ?? '' })
  await client.connect()
  t.teardown(() => client.end())
  await client.query('alter table statuses set (autovacuum_enabled = off)')
  for (const statement of postgresFilling(STATUSES)) await client.query(statement)
  // The planner expects no row of a repository whose first statuses came after the last analysis.
  await client.query('delete from statuses where repository_id = 500')
  await client.query('analyze')
  const shas = Array.from({ length: 30 }, (_, index) => shaOf(`new ${index}`))
  await client.query(
    `insert into statuses (id, repository_id, sha, context, state, created_at, updated_at)
    select gen_random_uuid()::text, 500, sha, 'context ' || n, 'failure', 1, 1
    from unnest($1::text[]) as sha, generate_series(1, ${CONTEXTS}) as n`,
    [shas],
  )

  const { store, statements } = recording(engine)
  const commits = shas.map((sha) => ({ repositoryId: 500, sha }))
  const read = () => store.summaries.list(commits)
  // The first time it also records queries that are compiled, with placeholders.
  await read()
  statements.length = 0
  await read()
  t.equal(statements.length, 1)
  for (const { sql, values } of statements) {
    const { rows } = await client.query(`explain (analyze, format json) ${sql}`, [...values])
    for (const node of flatten(rows[0]['QUERY PLAN'][0].Plan)) {
      const compared = (node['Rows Removed by Join Filter'] ?? 0) * node['Actual Loops']
      t.ok(compared <= 30 * CONTEXTS, `${node['Node Type']} compares ${compared} rows for nothing`)
    }
  }
})

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)]
}
