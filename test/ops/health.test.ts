import { rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import { buildApp } from '../../src/app.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import { health } from '../../src/ops/health.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import {
  createPostgresDatabase,
  databases,
  execute,
  openTestStore,
  sqlite,
  temporaryFolder,
} from '../helpers/databases.ts'

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
    error: /^Not ready: the folder of repositories cannot be written/,
  })
  rmSync(join(dataDir, 'repositories'))
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

t.test('checks nothing again while a check takes long', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const disk = Promise.withResolvers<void>()
  let checks = 0
  const check = () => {
    checks++
    return disk.promise
  }
  const app = fastify()
  await app.register(health, { store, spool: { check } })
  t.teardown(() => app.close())
  const first = app.inject('/readyz')
  await setTimeout(1_100)
  const second = app.inject('/readyz')
  await setTimeout(50)
  t.equal(checks, 1)
  disk.resolve()
  t.same([(await first).statusCode, (await second).statusCode], [200, 200])
})
