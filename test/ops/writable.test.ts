import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import Sqlite from 'better-sqlite3'
import tap, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import {
  databases,
  execute,
  openTestStore,
  postgres,
  sqlite,
  type TestDatabase,
} from '../helpers/databases.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { addRepository, addToken } from '../helpers/records.ts'

// The tests mostly wait, each for its own server.
tap.jobs = 3
const test = (name: string, work: (t: Test) => Promise<void>) => tap.test(name, { buffered: true }, work)

async function setUp(t: Test, database: TestDatabase) {
  const { store, options } = await openTestStore(t, database)
  const { id } = await asAdministrator(store).users.create('acme')
  const { commits } = await addRepository(store, 'acme/rocket')
  const [sha = ''] = commits
  const { secret: token } = await addToken(store, id)
  const instance = await startInstance(t, options)
  const report = async (context: string) =>
    (await instance.report('acme/rocket', sha, { state: 'success', context }, token)).status
  const ready = async () => (await instance.call('GET', '/readyz')).status
  const read = async () => (await instance.read('acme/rocket', sha)).status
  t.equal(await report('ci'), 201)
  t.equal(await ready(), 200)
  return { store, options, instance, report, ready, read }
}

async function until(expected: number, ask: () => Promise<number>): Promise<void> {
  while ((await ask()) !== expected) await setTimeout(20)
}

/** Limits the size of the process's files, so that writes fail as on a full disk. */
function limitFiles({ child }: Instance, bytes: number | 'unlimited'): void {
  execFileSync('prlimit', [`--pid=${child.pid}`, `--fsize=${bytes}:unlimited`])
}

test('SQLite: is not ready while nothing can be written, and reads go on', async (t) => {
  const { options, instance, report, ready, read } = await setUp(t, sqlite)
  limitFiles(instance, statSync(join(options.dataDir, 'commit-status.db-wal')).size)
  await until(503, ready)
  t.equal(await report('ci'), 503)
  t.equal(await report('new'), 503)
  t.equal(await read(), 200)
  t.equal((await instance.call('GET', '/healthz')).status, 200)
  limitFiles(instance, 'unlimited')
  await until(200, ready)
  t.equal(await report('ci'), 201, 'recovers by itself')
})

test('PostgreSQL: is not ready while it accepts no writes', async (t) => {
  const { options, report, ready } = await setUp(t, postgres)
  const url = new URL(options.databaseUrl ?? '')
  const name = url.pathname.slice(1)
  url.pathname = 'postgres'
  const end = `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${name}'`
  await execute(url.href, `alter database ${name} set default_transaction_read_only = on`, end)
  await until(503, ready)
  t.equal(await report('ci'), 503)
  await execute(url.href, `alter database ${name} reset default_transaction_read_only`)
  await until(200, ready)
  t.equal(await report('ci'), 201)
})

test('PostgreSQL: is not ready while its disk takes no reports, even where it takes a probe', async (t) => {
  const { options, report, ready, read } = await setUp(t, postgres)
  const url = options.databaseUrl ?? ''
  // Simulates a full disk, which needs privileges; "npm run soak -- full-disk" uses a real one.
  await execute(
    url,
    `create function full_disk() returns trigger language plpgsql as $$ begin
      raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$`,
    'create trigger full_disk before insert on statuses for each row execute function full_disk()',
  )
  t.equal(await ready(), 200, 'not detected yet')
  t.equal(await report('new'), 503)
  await until(503, ready)
  t.equal(await read(), 200)
})

for (const database of databases) {
  test(`${database.name}: at most one probe per second, for any number of requests`, async (t) => {
    const { store, options, ready } = await setUp(t, database)
    // The last one of what the server has to write besides.
    while ((await store.tokens.list()).some(({ lastUsedAt }) => lastUsedAt === null)) await setTimeout(20)
    const probes = await counter(t, options.dataDir, options.databaseUrl)
    const [before, since] = [await probes(), performance.now()]
    const elapsed = () => performance.now() - since
    while (elapsed() < 2_500 || (elapsed() < 30_000 && (await probes()) - before < 2)) {
      await Promise.all(Array.from({ length: 5 }, ready))
      await setTimeout(100)
    }
    const seconds = elapsed() / 1_000
    const count = (await probes()) - before
    t.ok(count >= 2 && count <= seconds + 1, `${count} in ${seconds} s`)
  })
}

/** Counts the server's commits, as seen by the database. */
async function counter(t: Test, dataDir: string, databaseUrl: string | null | undefined) {
  if (databaseUrl) {
    await execute(
      databaseUrl,
      'create sequence probes',
      `create function count_probe() returns trigger language plpgsql as
        $$ begin perform nextval('probes'); return new; end $$`,
      'create trigger count_probe before update on schema_migrations for each row execute function count_probe()',
    )
    return async () => {
      const [row] = await execute(
        databaseUrl,
        'select case when is_called then last_value else 0 end as count from probes',
      )
      return Number(row?.count)
    }
  }
  const database = new Sqlite(join(dataDir, 'commit-status.db'))
  t.teardown(() => database.close())
  let [count, version] = [0, database.pragma('data_version', { simple: true })]
  const watch = setInterval(() => {
    const now = database.pragma('data_version', { simple: true })
    if (now !== version) count++
    version = now
  }, 20)
  t.teardown(() => clearInterval(watch))
  return async () => count
}
