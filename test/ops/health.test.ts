import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/app.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import {
  createPostgresDatabase,
  databases,
  execute,
  openTestStore,
  sqlite,
  temporaryFolder,
} from '../helpers/databases.ts'
import { recordLog } from '../helpers/log.ts'
import { addRepository } from '../helpers/records.ts'

async function startApp(store: Store, dataDir: string): Promise<FastifyInstance> {
  return buildApp({ store, lookup: new CommitLookup(), spool: await openSpool(dataDir, 0) })
}

for (const database of databases) {
  t.test(`${database.name}: answers /healthz and /readyz`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const app = await startApp(store, options.dataDir)
    t.teardown(() => app.close())
    for (const [url, status] of Object.entries({ '/healthz': 'ok', '/readyz': 'ready' })) {
      // Credentials are ignored, so a mistyped one does not break probes.
      const answer = await app.inject({ url, headers: { authorization: 'Bearer wrong' } })
      t.equal(answer.statusCode, 200)
      t.same(answer.json(), { status })
      t.equal(answer.headers['cache-control'], 'no-store')
    }
    t.equal(await store.failures.find('127.0.0.1'), null)
  })
}

t.test('is healthy but not ready without its database', async (t) => {
  const url = await createPostgresDatabase(t)
  const dataDir = temporaryFolder(t)
  const store = await openStore({ dataDir, databaseUrl: url, poolSize: 2 })
  const app = await startApp(store, dataDir)
  t.teardown(async () => {
    await app.close()
    await store.close()
  })
  const name = new URL(url).pathname.slice(1)
  const away = new URL(url)
  away.pathname = 'postgres'
  t.equal((await app.inject('/readyz')).statusCode, 200)

  await execute(
    away.href,
    // Otherwise the server may connect again before the database has its other name.
    `alter database ${name} with allow_connections false`,
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${name}'`,
    `alter database ${name} rename to ${name}_away`,
  )
  // The outcome of the last check is reused for a second.
  const answer = await until(503, app)
  t.equal(answer.headers['retry-after'], '2')
  t.match(answer.json(), { error: /^Not ready: the database cannot be read or written\./ })
  t.notMatch(answer.body, /postgres|127\.0\.0\.1/i, 'reveals no internals')
  t.equal((await app.inject('/healthz')).statusCode, 200)

  await execute(
    away.href,
    `alter database ${name}_away rename to ${name}`,
    `alter database ${name} with allow_connections true`,
  )
  await until(200, app)
})

t.test('is not ready without a git that supports core.fsync', async (t) => {
  const dataDir = temporaryFolder(t)
  const store = await openStore({ dataDir })
  const app = await startApp(store, dataDir)
  t.teardown(async () => {
    await app.close()
    await store.close()
  })
  const { PATH = '' } = process.env
  t.teardown(() => {
    process.env.PATH = PATH
  })
  process.env.PATH = ['/nonexistent', temporaryFolder(t)].join(delimiter)
  const answer = await app.inject('/readyz')
  t.equal(answer.statusCode, 503)
  t.match(answer.json(), { error: /^Not ready: git cannot be run/ })
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'git'), '#!/bin/sh\necho git version 2.35.9\n', { mode: 0o755 })
  process.env.PATH = folder
  t.equal((await app.inject('/readyz')).statusCode, 503)
  process.env.PATH = PATH
  await until(200, app)
})

t.test('is not ready while its folder of repositories cannot be written', async (t) => {
  const dataDir = temporaryFolder(t)
  const store = await openStore({ dataDir })
  const app = await startApp(store, dataDir)
  t.teardown(async () => {
    await app.close()
    await store.close()
  })
  t.equal((await app.inject('/readyz')).statusCode, 200, 'before the first repository')
  // For every account: a file that cannot be entered.
  writeFileSync(join(dataDir, 'repositories'), '')
  t.match((await until(503, app)).json(), {
    error: /^Not ready: the folder of repositories is missing or cannot be written/,
  })
  rmSync(join(dataDir, 'repositories'))
  await until(200, app)
})

t.test('is not ready while its folder of repositories is gone', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  const { logger, lines } = recordLog('warn')
  const spool = await openSpool(options.dataDir, 0)
  const app = await buildApp({ store, lookup: new CommitLookup(), spool, logger })
  t.teardown(() => app.close())
  await asAdministrator(store).users.create('alice')
  await addRepository(store, 'alice/rocket')
  t.equal((await app.inject('/readyz')).statusCode, 200)

  const folder = join(options.dataDir, 'repositories')
  renameSync(folder, `${folder}-away`)
  t.match((await until(503, app)).json(), { error: /the folder of repositories is missing/ })
  t.match(lines.join(''), `ENOENT: no such file or directory, access '${folder}'`)
  renameSync(`${folder}-away`, folder)
  await until(200, app)

  rmSync(folder, { recursive: true })
  await until(503, app)
  await asAdministrator(store).repositories.delete({ owner: 'alice', name: 'rocket' })
  await until(200, app)
})

/** Polls /readyz until it answers with that status. */
async function until(status: number, app: FastifyInstance) {
  for (;;) {
    const answer = await app.inject('/readyz')
    if (answer.statusCode === status) return answer
    await setTimeout(20)
  }
}

/** Starts an app whose checks of the spool are counted, and whose clock the test controls. */
async function countChecks(t: Test, disk: () => Promise<void>) {
  const { store, options } = await openTestStore(t, sqlite)
  const spool = await openSpool(options.dataDir, 0)
  let checks = 0
  t.capture(spool, 'check', () => {
    checks++
    return disk()
  })
  // Whole, so that sums of whole milliseconds are exact.
  let clock = Math.round(performance.now())
  t.capture(performance, 'now', () => clock)
  const app = await buildApp({ store, lookup: new CommitLookup(), spool })
  t.teardown(() => app.close())
  return {
    app,
    checks: () => checks,
    pass(milliseconds: number) {
      clock += milliseconds
    },
  }
}

t.test('checks nothing again while a check takes long', async (t) => {
  const disk = Promise.withResolvers<void>()
  const { app, checks, pass } = await countChecks(t, () => disk.promise)
  const first = app.inject('/readyz')
  while (checks() === 0) await setTimeout()
  pass(1_100)
  const second = app.inject('/readyz')
  await setTimeout(50)
  t.equal(checks(), 1)
  disk.resolve()
  t.same([(await first).statusCode, (await second).statusCode], [200, 200])
})

t.test('one check a second, whoever asks, however, and whatever it finds', async (t) => {
  let isFull = true
  const { app, checks, pass } = await countChecks(t, async () => {
    if (isFull) throw new Error('the disk is full')
  })
  const attack = async () => {
    const answers = []
    for (const request of [
      '/readyz',
      '/readyz?again=1',
      { method: 'HEAD', url: '/readyz' },
      { url: '/readyz', headers: { 'cache-control': 'no-cache', pragma: 'no-cache' } },
      { url: '/readyz', headers: { 'if-none-match': '*', authorization: 'Bearer x' } },
      { url: '/readyz', remoteAddress: '192.0.2.9' },
      { url: '/readyz', headers: { 'x-forwarded-for': '192.0.2.10' } },
      { url: '/healthz' },
      { method: 'POST', url: '/readyz' },
    ] as const)
      answers.push((await app.inject(request)).statusCode)
    return answers
  }
  const full = [...Array.from({ length: 7 }, () => 503), 200, 405]
  t.same(await attack(), full)
  t.same([await attack(), checks()], [full, 1], 'a failure is reused')
  isFull = false
  pass(999)
  t.same([await attack(), checks()], [full, 1])
  pass(1)
  const ready = [...Array.from({ length: 8 }, () => 200), 405]
  t.same([await attack(), checks()], [ready, 2], 'requests do not prolong it')
  isFull = true
  pass(999)
  t.same([await attack(), checks()], [ready, 2], 'a success is reused')
  pass(1)
  t.same([await attack(), checks()], [full, 3])
})
