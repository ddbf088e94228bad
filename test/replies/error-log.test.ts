import { rmSync } from 'node:fs'
import { Writable } from 'node:stream'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/app.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import { createLogger } from '../../src/ops/logger.ts'
import { QUIET } from '../../src/replies/error-log.ts'
import { StoreUnavailable } from '../../src/store/engine.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { openTestStore, postgres, sqlite } from '../helpers/databases.ts'
import { recordLog } from '../helpers/log.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

/** Opens an app and collects the lines of its log. */
async function open(t: Test, level: string, database = sqlite) {
  const { store, options } = await openTestStore(t, database)
  const lines: Record<string, unknown>[] = []
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    },
  })
  const app = await buildApp({
    store,
    lookup: new CommitLookup(),
    spool: await openSpool(options.dataDir, 0),
    logger: createLogger(level, destination),
  })
  t.teardown(() => app.close())
  return { store, app, lines }
}

const MISSING = '0'.repeat(40)
const path = `/api/v1/repos/alice/rocket/commits/${MISSING}/statuses`

t.test('while the service is unavailable, one line is logged for many requests', async (t) => {
  const { store, app, lines } = await open(t, 'info')
  const repository = { owner: 'alice', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  await asAdministrator(store).repositories.create({ ...repository, path: '/nonexistent/rocket.git' })
  const begun = performance.now()
  t.capture(performance, 'now', () => begun)
  for (let request = 0; request < 50; request++) t.equal((await app.inject(path)).statusCode, 503)
  t.equal(lines.length, 1)
  t.match(lines[0], {
    level: 50,
    reqId: /^[\da-f-]{36}$/,
    msg: 'unavailable',
    err: { type: 'RepositoryUnavailable', stack: /\n +at / },
    silenced: 0,
  })
  for (const [times, silenced] of [
    [1, 49],
    [2, 0],
  ] as const) {
    t.capture(performance, 'now', () => begun + times * QUIET)
    await app.inject(path)
    t.match(lines[times], { msg: 'unavailable', silenced }, 'since the last line')
  }
})

t.test('an internal error is logged each time, with its stack', async (t) => {
  const { store, app, lines } = await open(t, 'info')
  await store.close()
  const answers = [await app.inject(path), await app.inject(path)]
  t.same(
    answers.map(({ statusCode }) => statusCode),
    [500, 500],
  )
  t.same(
    lines.map(({ reqId }) => reqId),
    answers.map(({ headers }) => headers['x-request-id']),
  )
  for (const line of lines) t.match(line, { level: 50, msg: 'internal', err: { stack: /\n +at / } })
})

t.test('a bug in the call of PostgreSQL is an internal error with its stack', async (t) => {
  const { app, lines } = await open(t, 'info', postgres)
  t.equal((await app.inject(path)).statusCode, 401)
  const { query } = Client.prototype
  t.teardown(() => {
    Client.prototype.query = query
  })
  Client.prototype.query = async () => {
    throw new Error('boom')
  }
  const { statusCode, headers } = await app.inject(path)
  t.equal(statusCode, 500)
  // Statements in the background fail and are logged too.
  const ofRequest = lines.filter(({ reqId }) => reqId === headers['x-request-id'])
  t.match(ofRequest, [{ level: 50, msg: 'internal', err: { stack: /boom\n +at / } }])
})

t.test('at level debug each request is logged without its query', async (t) => {
  const { app, lines } = await open(t, 'debug')
  const headers = { authorization: 'Bearer secret-of-somebody' }
  const { headers: answered } = await app.inject({ url: `${path}?token=secret`, headers })
  t.equal(lines.length, 1)
  t.match(lines[0], {
    level: 20,
    reqId: answered['x-request-id'],
    method: 'GET',
    path,
    status: 401,
    client: '127.0.0.1',
    msg: 'answered',
  })
  t.type(lines[0]?.duration, 'number')
  t.same([lines[0]?.user, lines[0]?.token_name], [undefined, undefined])
  t.notMatch(JSON.stringify(lines), /secret/)
})

t.test('lines say whose token a request was authorized with', async (t) => {
  const { logger, lines } = recordLog('debug')
  const server = await startServer(t, { logger })
  const { path: folder, commits } = await server.createRepository('alice/rocket', { private: true })
  const token = await server.createToken('alice', { name: 'CI of rocket' })
  t.equal((await server.read('alice/rocket', commits[0] ?? '', token)).status, 200)
  rmSync(folder, { recursive: true })
  t.equal((await server.read('alice/rocket', MISSING, token)).status, 503)
  const refs = '/alice/rocket.git/info/refs?service=git-upload-pack'
  t.equal((await server.call('GET', refs, { token })).status, 503)
  await until(() => lines.filter((line) => line.includes('"answered"')).length === 3)
  for (const line of lines.filter((line) => line.includes('"reqId"')))
    t.match(JSON.parse(line), { user: 'alice', token_name: 'CI of rocket' }, line)
  t.ok(lines.some((line) => JSON.parse(line).msg === 'unavailable'))
})

t.test('at level info requests are not logged', async (t) => {
  const { app, lines } = await open(t, 'info')
  await app.inject(path)
  t.same(lines, [])
})

t.test('an answer that fails half-way is not taken for a version of the page', async (t) => {
  const { app } = await open(t, 'silent')
  const fail = (path: string, error: Error) =>
    app.get(path, (_request, reply) => {
      reply.header('etag', '"1"').header('cache-control', 'public, max-age=60')
      throw error
    })
  fail('/internal', new Error('a bug'))
  fail('/unavailable', new StoreUnavailable('the database is away'))
  for (const path of ['/internal', '/unavailable']) {
    const { headers } = await app.inject(path)
    t.match(headers, { etag: undefined, 'cache-control': 'no-store' })
  }
})
