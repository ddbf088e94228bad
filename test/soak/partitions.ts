import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client } from 'pg'
import tap, { type Test } from 'tap'
import { migrate } from '../../src/store/migrations.ts'
import { openEngine } from '../../src/store/store.ts'
import { createFixture, type Fixture } from '../bench/fixture.ts'
import { UNIQUE } from '../bench/load.ts'
import { measure } from '../bench/measure.ts'
import { startProcess } from '../bench/processes.ts'
import { read, report } from '../bench/requests.ts'
import { ourCommand } from '../bench/servers.ts'
import { runCliProcess } from '../helpers/cli-process.ts'
import { databaseUrl, execute } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { postgresFilling, recording, requests } from '../helpers/request-statements.ts'
import { startLoad } from './parts/load.ts'
import { requireProgram } from './parts/programs.ts'

/**
 * Turns the table of statuses of a serving database into hash partitions with `src/ops/partitioning.sql`, as documented.
 * PARTITION_STATUSES: 1,000,000 unless given.
 */
const STATUSES = Number(process.env.PARTITION_STATUSES ?? 1_000_000)
const REPOSITORIES = 1_000
const WRITERS = 6
/** Milliseconds for which no client may wait for a request that succeeds. */
const LONGEST_FAILURE = 5_000
/** Microseconds: Linux counts processor time in hundredths of a second. */
const TICK = 10_000
/** By how much a ratio may be worse with partitions. */
const AIM = { atLeast: 0.9 }
/** Of measurements, whose medians are compared. */
const ROUNDS = 15
/** Executions after which PostgreSQL may choose a generic plan. */
const EXECUTIONS = 8

const script = resolve(import.meta.dirname, '../../src/ops/partitioning.sql')
const run = promisify(execFile)

tap.setTimeout(1_800_000)
requireProgram('psql', 'postgresql-client')
const postgres = await startPostgres()
tap.teardown(() => postgres.stop())

async function createDatabase(template = 'template0'): Promise<string> {
  const name = `partitions_${randomBytes(6).toString('hex')}`
  await execute(postgres.url, `create database ${name} template ${template}`)
  return databaseUrl(postgres.url, name)
}

async function migrateDatabase(url: string): Promise<void> {
  const engine = await openEngine({ dataDir: '', databaseUrl: url, poolSize: 1, statementTimeout: false })
  await migrate(engine)
  await engine.close()
}

/** Runs the documented command. */
async function partition(url: string): Promise<void> {
  await run('psql', ['--no-psqlrc', '--set', 'ON_ERROR_STOP=1', '--quiet', '--file', script, url])
}

async function count(url: string, condition = 'true'): Promise<number> {
  const [row] = await execute(url, `select count(*)::int as rows from statuses where ${condition}`)
  return Number(row?.rows)
}

/** Statuses of repositories of others, as many as are missing: of 20 commits too old to keep, and of 20 a year old. */
async function fillUp(url: string): Promise<void> {
  const each = Math.ceil((STATUSES - (await count(url))) / REPOSITORIES / 10)
  await execute(
    url,
    `insert into repositories (owner, owner_key, name, name_key, visibility, object_format, path, created_at)
      select 'team', 'team', 'repo' || n, 'repo' || n, 'public', 'sha1', '/nonexistent/' || n, 1
      from generate_series(1, ${REPOSITORIES}) as n`,
    `insert into statuses (repository_id, sha, context, id, state, description, created_at, updated_at)
      select r.id, left(encode(sha256(convert_to(r.id || '/' || c, 'UTF8')), 'hex'), 40), 'ci/check-' || x,
        uuidv7()::text, 'success', '412 tests passed', 1, case when r.id % 50 = 0 then 1
          when r.id % 50 = 1 then extract(epoch from now())::bigint - 400 * 86400 else extract(epoch from now())::bigint end
      from repositories as r, generate_series(1, ${each}) as c, generate_series(1, 10) as x
      where r.owner = 'team' order by 1, 2, 3`,
    'vacuum analyze statuses',
  )
}

/** Reports and reads on both instances, over and over. */
async function serveClients(t: Test, { options, tokens, reported }: Fixture) {
  const instances = await Promise.all([0, 1].map(() => startInstance(t, options)))
  /** By context: the number that was acknowledged last. */
  const acknowledged = new Map<string, number>()
  /** Milliseconds: of the slowest request, and from the first failure of a client to its next success. */
  const longest = { request: 0, failure: 0 }
  /** When the failures of each client began that have not ended. */
  const failing = new Map<number, number>()
  const load = startLoad(WRITERS, async (worker, index) => {
    const began = performance.now()
    const sha = reported[(worker * 100 + index) % 500] ?? ''
    const instance = instances[index % instances.length]
    assert(instance)
    const context = `${worker} ${sha}`
    const body = { state: 'success', context, description: `${index}` }
    const isRead = index % 3 === 2
    const { status } = await (isRead
      ? instance.read('alice/reports', sha)
      : instance.report('alice/reports', sha, body, tokens[0]))
    if (status === 201) acknowledged.set(context, index)
    const now = performance.now()
    longest.request = Math.max(longest.request, now - began)
    const since = failing.get(worker) ?? began
    if (status >= 500) failing.set(worker, since)
    else if (failing.delete(worker)) longest.failure = Math.max(longest.failure, now - since)
    return status
  })
  async function stop() {
    await load.stop()
    for (const { child } of instances) child.kill()
  }
  return { acknowledged, longest, answers: load.answers, stop }
}

/** Deletes repositories; PostgreSQL may end a deletion that waits for the copy in a circle. */
async function deleteRepositories(url: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await execute(url, `delete from repositories where owner = 'team' and id % 50 = 2`)
      return
    } catch (error) {
      if (attempt === 5) throw error
    }
  }
}

const original = await createDatabase()
const fixture = await createFixture(10_000, original)
tap.teardown(() => rmSync(fixture.options.dataDir, { recursive: true, force: true }))
await fillUp(original)
const twin = await createDatabase(new URL(original).pathname.slice(1))
const environment = { DATA_DIR: fixture.options.dataDir, DATABASE_URL: original }

tap.test(`a serving database with ${STATUSES} statuses gets partitions`, async (t) => {
  const load = await serveClients(t, fixture)
  await setTimeout(2_000)
  const began = performance.now()
  const partitioned = partition(original)
  await setTimeout(1_000)
  // Rows that are deleted while others are copied.
  const [pruned] = await Promise.all([
    runCliProcess(environment, 'prune', '--older-than', '18000d'),
    deleteRepositories(original),
  ])
  t.equal(pruned.code, 0, pruned.stderr)
  await partitioned
  const took = performance.now() - began
  await setTimeout(2_000)
  await load.stop()
  t.comment(
    `partitioned in ${Math.round(took / 1000)} s; answers ${JSON.stringify(load.answers)}; slowest request ${Math.round(load.longest.request)} ms, longest failure ${Math.round(load.longest.failure)} ms`,
  )
  t.ok(load.longest.failure <= LONGEST_FAILURE)
  t.ok(load.longest.request <= LONGEST_FAILURE)
  t.same(
    Object.keys(load.answers).filter((status) => !['200', '201', '503'].includes(status)),
    [],
  )

  const stored = await execute(
    original,
    `select context, description from statuses join repositories on repositories.id = repository_id
      where repositories.name = 'reports' and context like '% %'`,
  )
  const found = new Map(stored.map(({ context, description }) => [context, Number(description)]))
  t.ok(load.acknowledged.size > 0)
  const lost = [...load.acknowledged].filter(([context, number]) => Number(found.get(context) ?? -1) < number)
  t.same(lost, [], 'no acknowledged report is lost')
  const kept = `repository_id in (select id from repositories where owner = 'team' and id % 50 not in (0, 2))`
  t.equal(await count(original, kept), await count(twin, kept), 'nor any other')
  t.equal(
    await count(
      original,
      `repository_id in (select id from repositories where owner = 'team' and id % 50 = 0)`,
    ),
    0,
  )
  const partitions = await execute(
    original,
    `select relname, pg_get_expr(relpartbound, oid) as bound from pg_class where oid in
      (select inhrelid from pg_inherits where inhparent = 'statuses'::regclass) order by relname`,
  )
  t.equal(partitions.length, 16)
  t.match(partitions[15], { relname: 'statuses_15', bound: 'FOR VALUES WITH (modulus 16, remainder 15)' })
  t.same(await execute(original, `select 1 from pg_class where relname like '%unpartitioned%'`), [])
})

tap.test('reads and reports are as fast with partitions', async (t) => {
  const databaseCpu = await openDatabaseCpu()
  const serve = async (databaseUrl: string) => {
    const { args, env } = ourCommand({ ...fixture, options: { ...fixture.options, databaseUrl } })
    const server = await startProcess(args, env)
    t.teardown(() => server.stop())
    return { ...server, cpu: () => server.cpu() + databaseCpu() }
  }
  const { sized, reported, tokens } = fixture
  const changed = { description: `412 tests passed in ${UNIQUE} s` }
  const loads = [
    { name: 'read 10', requests: [read('public', sized.get(10))], statuses: [200] },
    {
      name: 'report',
      requests: reported.slice(0, 112).map((sha) => report('reports', sha, tokens[0], changed)),
      statuses: [201],
    },
  ]
  const [whole, partitioned] = [await serve(twin), await serve(original)]
  const scenarios = loads.flatMap(({ name, ...load }) => [
    { name: `${name}, one table`, server: whole, ...load },
    {
      name: `${name}, 16 partitions`,
      server: partitioned,
      ...load,
      against: { name: `${name}, one table`, aim: AIM },
    },
  ])
  const errors: string[] = []
  const signal = new AbortController().signal
  const rows = await measure(scenarios, {
    rounds: ROUNDS,
    seconds: 1,
    onError: (text) => errors.push(text),
    signal,
  })
  t.same(errors, [])
  for (const row of rows) {
    const { name, value, cpu = 0, ratio, cpuRatio } = row
    const ratios =
      ratio && cpuRatio ? `; ratio ${ratio.toFixed(2)}, of processor time ${cpuRatio.toFixed(2)}` : ''
    t.comment(`${name}: ${Math.round(value)} requests/s, ${Math.round(cpu)} µs of a processor${ratios}`)
    // Rates also depend on what else the machine does; processor time of the server and the database does not.
    if (row.against) t.ok(Math.max(ratio ?? 0, cpuRatio ?? 0) >= AIM.atLeast, name)
  }
})

/** Returns a function that returns the processor time, in microseconds, that all processes of PostgreSQL have used so far. */
async function openDatabaseCpu(): Promise<() => number> {
  const client = new Client({ connectionString: postgres.url })
  await client.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const fieldsOf = (pid: string) => {
    const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(/\) (?!.*\) )/)
    return rest.split(' ').map(Number)
  }
  const main = `${fieldsOf(rows[0].pid)[1]}`
  await client.end()
  const sum = (fields: number[], from: number) => ((fields[from] ?? 0) + (fields[from + 1] ?? 0)) * TICK
  return () => {
    // Those that have ended are counted by the process that started them.
    const children = readFileSync(`/proc/${main}/task/${main}/children`, 'utf8').trim().split(' ')
    return children.reduce((total, pid) => total + sum(fieldsOf(pid), 11), sum(fieldsOf(main), 13))
  }
}

/** Reads commits of two repositories. */
const ACROSS = 'summaries of commits'

tap.test("every request's statements touch one partition", async (t) => {
  const url = await createDatabase()
  await migrateDatabase(url)
  await execute(url, ...postgresFilling(100_000))
  await partition(url)
  const engine = await openEngine({ dataDir: '', databaseUrl: url, poolSize: 2, statementTimeout: false })
  const client = new Client({ connectionString: url })
  await client.connect()
  t.teardown(async () => {
    await engine.close()
    await client.end()
  })
  const { store, statements } = recording(engine)
  let named = 0
  for (const [name, request] of Object.entries(requests)) {
    statements.length = 0
    await request(store)
    for (const { sql, values } of statements) {
      const statement = `s${named++}`
      const literals = values.map((value) => (value === null ? 'null' : client.escapeLiteral(String(value))))
      const execution = `execute ${statement}${literals.length > 0 ? `(${literals.join(', ')})` : ''}`
      await client.query(`prepare ${statement} as ${sql}`)
      // As the server executes it from then on: planned for its values, or once for all.
      let touched: string[] = []
      for (let time = 0; time < EXECUTIONS; time++) touched = await partitionsOf(client, execution)
      // The start page shows several repositories with one statement.
      const most = name === ACROSS ? 2 : 1
      t.ok(touched.length <= most, `${name}: ${touched.join(', ')}`)
      if (/(from|update) "statuses"|report_status/.test(sql)) t.not(touched.length, 0, name)
    }
  }
})

/** Runs a statement whose effects are not kept. @returns the partitions that it has read or written, also in functions */
async function partitionsOf(client: Client, statement: string): Promise<string[]> {
  // Otherwise the statistics include earlier transactions.
  await client.query('select pg_stat_force_next_flush()')
  await client.query('begin')
  await client.query(statement)
  const { rows } = await client.query(
    `select relname from pg_stat_xact_user_tables
    where relname ~ '^statuses_\\d+$' and seq_scan + idx_scan + n_tup_ins + n_tup_upd + n_tup_del > 0`,
  )
  await client.query('rollback')
  return rows.map(({ relname }) => relname)
}

tap.test('migrations, backup, restore, check and prune work with partitions', async (t) => {
  const folder = t.testdir({ data: {} })
  const cli = async (url: string, ...args: string[]) => {
    // A new database beside the repositories of another one would not be empty: its audit log says that it began.
    const place = url === original ? environment : { DATA_DIR: join(folder, 'data'), DATABASE_URL: url }
    const outcome = await runCliProcess(place, ...args)
    t.equal(outcome.code, 0, `${args[0]}: ${outcome.stderr}`)
    return outcome
  }
  // A database that has only been through the first migration: it gets its partitions, and then all the others.
  const names = await execute(original, 'select name from schema_migrations order by name')
  const [first, ...later] = names.map(({ name }) => `'${name}'`)
  t.ok(first && later.length > 0)
  const url = await createDatabase()
  await execute(
    url,
    'create table schema_migrations (name text primary key, applied_at bigint not null)',
    `insert into schema_migrations select name, 1 from unnest(array[${later.join(', ')}]) as name`,
  )
  await migrateDatabase(url)
  await execute(url, `delete from schema_migrations where name <> ${first}`)
  await partition(url)
  await cli(url, 'migrate')
  t.same(await execute(url, 'select name from schema_migrations order by name'), names)
  const columns = `select table_name, column_name, data_type, is_nullable, collation_name from information_schema.columns
    where table_schema = 'public' and table_name in (select relname from pg_class where not relispartition) order by 1, ordinal_position`
  t.same(await execute(url, columns), await execute(twin, columns), 'the same schema')

  const file = join(folder, 'statuses.backup')
  await cli(original, 'backup', file)
  await cli(url, 'restore', file)
  t.equal(await count(url), await count(original))
  const difference = async (a: string, b: string) =>
    execute(
      a,
      `select md5(string_agg(s::text, '' order by repository_id, sha, context)) as hash from statuses as s
      where repository_id % 10 = ${b}`,
    )
  t.same(await difference(url, '3'), await difference(original, '3'))

  const old = await count(original, `updated_at < extract(epoch from now()) - 365 * 86400`)
  const before = await count(original)
  t.ok(old > 0)
  await cli(original, 'prune', '--older-than', '365d')
  t.equal(await count(original), before - old)
  // The repositories of others have no files here.
  await execute(original, `delete from repositories where owner = 'team'`, 'vacuum analyze')
  await cli(original, 'check', '--commits')
})
