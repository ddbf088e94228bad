import { AsyncLocalStorage } from 'node:async_hooks'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { Client, DatabaseError } from 'pg'
import tap, { type Test } from 'tap'
import { CONNECTION_MESSAGES, translateError } from '../../../src/store/postgres/driver-errors.ts'
import { openStore, type StoreOptions } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { databaseUrl, execute, openTestStore, postgres } from '../../helpers/databases.ts'
import { startPostgres } from '../../helpers/postgres-server.ts'
import { addReport } from '../../helpers/records.ts'
import { openTcpProxy } from '../../helpers/tcp-proxy.ts'
import { until } from '../../helpers/until.ts'

const SHA = 'a'.repeat(40)
// Most of these tests only wait, and each has its own database.
tap.jobs = 6
const test = (name: string, work: (t: Test) => Promise<void>) => tap.test(name, { buffered: true }, work)
const AWAY = { name: 'StoreUnavailable' }

async function openRepository(t: Test, options?: StoreOptions) {
  const opened = options ? { store: await openStore(options), options } : await openTestStore(t, postgres)
  if (options) t.teardown(() => opened.store.close())
  const { store } = opened
  const created = await asAdministrator(store).repositories.create({
    owner: 'acme',
    name: `repo-${Date.now()}`,
    visibility: 'public',
    objectFormat: 'sha1',
  })
  const report = (context: string) => addReport({ store, repositoryId: created.id, sha: SHA }, context)
  const url = opened.options.databaseUrl ?? ''
  return { ...opened, url, created, report }
}

/** As `openRepository`, for tests that are not about the limit of a statement. */
const openPatiently = async (t: Test) =>
  openRepository(t, { ...(await postgres.create(t)), statementTimeout: false })

/** Opens a separate connection that can hold locks. */
async function openClient(t: Test, url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

function terminateAll(url: string) {
  return execute(
    url,
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
}

/** Returns how often `work` fails before it succeeds. All these errors must be StoreUnavailable. */
async function recovery(t: Test, work: () => Promise<unknown>): Promise<number> {
  let failures = 0
  await until(async () => {
    try {
      await work()
      return true
    } catch (error) {
      t.match(error, AWAY)
      failures++
      return false
    }
  })
  return failures
}

test('a report that waits for the deletion of its repository finds it missing', async (t) => {
  const { store, url, created, report } = await openPatiently(t)
  const client = await openClient(t, url)
  await client.query('begin')
  await client.query('delete from repositories where id = $1', [created.id])
  const waiting = report('ci')
  await untilBlocked(client)
  await client.query('commit')
  t.equal(await waiting, undefined)
  t.same(await store.statuses.list(created.id, SHA), [])
})

test('runs a statement again after a deadlock', async (t) => {
  const { store, url, created, report } = await openPatiently(t)
  await report('ci')
  // Simulates a deadlock, which single statements cannot cause.
  await execute(
    url,
    'create sequence attempts',
    `create function beaten() returns trigger language plpgsql as $$ begin
      if nextval('attempts') < 3 then raise exception 'deadlock' using errcode = '40P01'; end if;
      return new; end $$`,
    'create trigger beaten before update on statuses for each row execute function beaten()',
  )
  t.match(await report('ci'), { context: 'ci' })
  t.same(await execute(url, 'select last_value::int as attempts from attempts'), [{ attempts: 3 }])
  await execute(
    url,
    'alter sequence attempts restart',
    'alter sequence attempts minvalue -1000 restart with -1000',
  )
  await t.rejects(report('ci'), AWAY, 'a limited number of times')
  t.equal((await store.statuses.list(created.id, SHA)).length, 1)
})

test('runs a migration again after a deadlock with servers that write', async (t) => {
  const { store, created, report } = await openPatiently(t)
  await report('ci')
  const { engine } = store
  let attempts = 0
  let lock: Promise<unknown> | undefined
  const locked = Promise.withResolvers<void>()
  // As another server, which is no part of the migration.
  const lockStatuses = AsyncLocalStorage.bind(() =>
    engine.kysely.transaction().execute(async (other) => {
      // This transaction waits longer before it looks for a deadlock, so the migration ends.
      await sql`set local deadlock_timeout = '1min'`.execute(other)
      await sql`lock table statuses in access exclusive mode`.execute(other)
      locked.resolve()
      await sql`select count(*) from repositories`.execute(other)
    }),
  )
  await engine.exclusively(async (db) => {
    attempts++
    await sql`lock table repositories in access exclusive mode`.execute(db)
    if (attempts > 1) return
    lock = lockStatuses()
    await locked.promise
    await sql`lock table statuses in access exclusive mode`.execute(db)
  })
  await lock
  t.equal(attempts, 2)
  t.equal((await store.statuses.list(created.id, SHA)).length, 1)
})

test('waiting for a lock ends with an error, and the connection is replaced', async (t) => {
  const { store, url, created, report } = await openRepository(t)
  await report('ci')
  const client = await openClient(t, url)
  await client.query('begin')
  await client.query('select * from statuses for update')
  const waiting = report('ci').catch((error: unknown) => error)
  const session = await untilBlocked(client)
  const activity = `select pid from pg_stat_activity where datname = current_database()`
  t.match(await waiting, AWAY)
  // On a former primary that was cut off, locks are held by commits that wait for a standby without
  // end.
  while ((await execute(url, `${activity} and pid = ${session}`)).length > 0);
  t.equal((await store.statuses.list(created.id, SHA)).length, 1, 'reads do not wait')
  await client.query('rollback')
  t.match(await report('ci'), { context: 'ci' })
})

test('waits for a free connection for a limited time', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const { url, report } = await openRepository(t, { ...options, poolSize: 1 })
  await report('ci')
  const client = await openClient(t, url)
  await client.query('begin')
  await client.query('select * from statuses for update')
  const reports = Promise.allSettled([report('ci'), report('other')])
  const session = await untilBlocked(client)
  const activity = 'select pid from pg_stat_activity where datname = current_database()'
  for (const outcome of await reports) t.match(outcome, { status: 'rejected', reason: AWAY })
  while ((await execute(url, `${activity} and wait_event_type = 'Lock'`)).length > 0);
  await client.query('rollback')
  t.match(await report('ci'), { context: 'ci' })
  await client.end()
  const others = await execute(url, `${activity} and state = 'idle' and pid <> ${session}`)
  t.equal(others.length, 1, 'a connection on which a statement took too long is not used again')
})

test('replaces connections that the server closed, idle or in use', async (t) => {
  const { store, url, created, report } = await openRepository(t)
  await Promise.all(Array.from({ length: 10 }, (_, index) => report(`ci ${index}`)))
  await terminateAll(url)
  t.ok((await recovery(t, () => report('idle'))) <= 1, 'no report fails for each connection')

  const acknowledged: string[] = []
  const load = Array.from({ length: 8 }, async (_, worker) => {
    for (let index = 0; index < 30; index++) {
      const context = `${worker}/${index}`
      await report(context).then(
        () => acknowledged.push(context),
        (error: unknown) => t.match(error, AWAY),
      )
    }
  })
  await report('before')
  await terminateAll(url)
  await Promise.all(load)
  await recovery(t, () => report('after'))
  const stored = new Set((await store.statuses.list(created.id, SHA)).map(({ context }) => context))
  t.same(
    acknowledged.filter((context) => !stored.has(context)),
    [],
  )
})

test('losing the connection rolls a transaction back', async (t) => {
  const { store, url } = await openRepository(t)
  const lost = store.audit.transaction({ kind: 'administrator' }, async (change) => {
    const kind = { visibility: 'public', objectFormat: 'sha1' } as const
    await store.repositories.create(change, { owner: 'acme', name: 'lost', ...kind })
    await terminateAll(url)
  })
  await t.rejects(lost, AWAY)
  await recovery(t, () => store.users.any())
  t.equal(await store.repositories.find('acme', 'lost'), undefined)
})

test('recovers from a host that stops responding', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const detour = await openTcpProxy(t, options.databaseUrl ?? '')
  const { report } = await openRepository(t, { ...options, databaseUrl: detour.url, poolSize: 5 })
  await Promise.all(Array.from({ length: 5 }, (_, index) => report(`ci ${index}`)))
  detour.freeze()
  t.ok((await recovery(t, () => report('after'))) <= 1, 'a single timeout for all connections')
})

test('reconnects when a server no longer accepts writes', async (t) => {
  const { url, report } = await openRepository(t)
  const { pathname } = new URL(url)
  const name = pathname.slice(1)
  await report('before')
  // The errors of a demoted primary on existing and on new connections.
  await execute(url, `alter database ${name} set default_transaction_read_only = on`)
  await terminateAll(url)
  await t.rejects(report('one'), AWAY)
  await t.rejects(report('two'), { ...AWAY, message: 'PostgreSQL: the server does not accept writes' })
  await execute(databaseUrl(url, 'postgres'), `alter database ${name} reset default_transaction_read_only`)
  await recovery(t, () => report('after'))
})

test('neither durability nor isolation depends on the defaults of the database', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const url = options.databaseUrl ?? ''
  const database = new URL(url).pathname.slice(1)
  await execute(
    url,
    `alter database ${database} set synchronous_commit = off`,
    `alter database ${database} set default_transaction_isolation = serializable`,
  )
  const { store, created, report } = await openRepository(t, options)
  await execute(
    url,
    `create function setting() returns trigger language plpgsql as
      $$ begin
        new.description = current_setting('synchronous_commit') || ', ' || current_setting('transaction_isolation');
        return new;
      end $$`,
    'create trigger setting before insert on statuses for each row execute function setting()',
  )
  await report('ci')
  t.match(await store.statuses.list(created.id, SHA), [{ description: 'on, read committed' }])
})

test('a crash of the server under load loses no acknowledged report', async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const { store, created, report } = await openRepository(t, {
    dataDir: '/nonexistent',
    databaseUrl: server.url,
  })
  const acknowledged: string[] = []
  let crashed = false
  const load = Array.from({ length: 8 }, async (_, worker) => {
    for (let index = 0; !crashed; index++) {
      const context = `${worker}/${index}`
      await report(context).then(
        () => acknowledged.push(context),
        (error: unknown) => t.match(error, AWAY),
      )
    }
  })
  while (acknowledged.length < 100) await report('warm')
  await server.crash()
  await recovery(t, () => report('after'))
  crashed = true
  await Promise.all(load)
  const stored = new Set((await store.statuses.list(created.id, SHA)).map(({ context }) => context))
  t.same(
    acknowledged.filter((context) => !stored.has(context)),
    [],
  )
})

test('reports a server that cannot be reached or rejects the password', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const wrong = new URL(options.databaseUrl ?? '')
  wrong.password = 'zanzibar'
  for (const databaseUrl of [
    wrong.href,
    'postgres://u:zanzibar@127.0.0.1:1/db',
    'postgres://u:zanzibar@x.invalid/db',
  ]) {
    const error: unknown = await openStore({ ...options, databaseUrl }).catch((reason: unknown) => reason)
    t.match(error, { ...AWAY, message: /: PostgreSQL: .+/ })
    t.notMatch(error instanceof Error ? `${error.stack} ${JSON.stringify(error)}` : '', /zanzibar/)
  }
  // Of a host with several addresses, Node names only the code.
  const refused = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' })
  t.match(translateError(refused, true), { ...AWAY, message: 'PostgreSQL: ECONNREFUSED' })
})

test('only errors of the connection count as unavailable, as Node and pg name them', async (t) => {
  for (const code of ['EPIPE', 'CERT_HAS_EXPIRED', 'INVALID_CA', 'ERR_TLS_CERT_ALTNAME_INVALID'])
    t.match(translateError(Object.assign(new Error('x'), { code })), AWAY, code)
  t.match(
    translateError(new DatabaseError('received invalid response: 48', 1, 'error')),
    AWAY,
    'not PostgreSQL',
  )
  const folder = join(import.meta.dirname, '../../../node_modules')
  const files = ['pg/lib/client.js', 'pg/lib/connection.js', 'pg/lib/crypto/sasl.js']
  const sources = [...files, 'pg-pool/index.js', 'pg-protocol/dist/parser.js']
  const source = sources.map((file) => readFileSync(join(folder, file), 'utf8')).join()
  for (const message of CONNECTION_MESSAGES) {
    t.ok(source.includes(`'${message}`), `pg still says "${message}"`)
    t.match(translateError(new Error(message)), AWAY)
  }
  const bugs = [
    new Error('boom'),
    new TypeError('x is not a function'),
    Object.assign(new RangeError('x'), { code: 'ERR_OUT_OF_RANGE' }),
    Object.assign(new TypeError('x'), { code: 'ERR_INVALID_ARG_TYPE' }),
  ]
  for (const bug of bugs)
    for (const isConnecting of [true, false]) t.equal(translateError(bug, isConnecting), bug)
})

/** Returns the id of a process of the server that waits for a lock, as soon as there is one. */
async function untilBlocked(client: Client): Promise<number> {
  for (;;) {
    const { rows } = await client.query(
      "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    if (rows[0]) return rows[0].pid
  }
}
