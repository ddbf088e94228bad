import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Client } from 'pg'
import { type Test, test } from 'tap'
import { Connections, sharesSessions } from '../../../src/store/postgres/connections.ts'
import { openStore } from '../../../src/store/store.ts'
import { postgres, type TestDatabase } from '../../helpers/databases.ts'
import { type JsonAnswer, startServer } from '../../helpers/server.ts'

async function setUp(t: Test, poolSize: number) {
  const database: TestDatabase = {
    ...postgres,
    create: async (t) => ({ ...(await postgres.create(t)), poolSize }),
  }
  const server = await startServer(t, { database })
  const { commits } = await server.createRepository('acme/rocket')
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const report = (context: string) => server.report('acme/rocket', sha, { state: 'success', context }, token)
  t.equal((await report('ci')).status, 201)

  const client = new Client({ connectionString: server.options.databaseUrl ?? '' })
  await client.connect()
  t.teardown(() => client.end())
  return { ...server, sha, token, report, client }
}

/** Sends reads, 10 at a time. @returns the number of responses by status */
async function countReads(read: (index: number) => Promise<JsonAnswer>, count: number) {
  const counts: Record<number, number> = {}
  let next = 0
  const reader = async () => {
    while (next < count) {
      const { status } = await read(next++)
      counts[status] = (counts[status] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: 10 }, reader))
  return counts
}

test('reads succeed while reports wait for a lock', async (t) => {
  const { client, report, read, call, sha, token } = await setUp(t, 10)
  await client.query('begin')
  await client.query('lock table statuses in exclusive mode')
  const waiting = Array.from({ length: 200 }, (_, index) => report(index % 2 ? 'ci' : `new ${index}`))
  const reads = await countReads((index) => read('acme/rocket', sha, index % 2 ? token : undefined), 400)
  t.same(reads, { 200: 400 })
  t.equal((await call('GET', `/acme/rocket/commits/${sha}`)).status, 200, 'and a page')
  for (const { status } of await Promise.all(waiting)) t.equal(status, 503)
  await client.query('rollback')
  t.equal((await report('ci')).status, 201)
  t.equal((await report('later')).status, 201)
})

test('reads succeed while pages wait for a lock', async (t) => {
  const { client, report, read, call, sha, token } = await setUp(t, 10)
  await client.query('begin')
  await client.query('lock table sessions in access exclusive mode')
  const headers = { cookie: `session=${'x'.repeat(43)}` }
  const waiting = Array.from({ length: 200 }, () => call('GET', `/acme/rocket/commits/${sha}`, { headers }))
  const reads = await countReads((index) => read('acme/rocket', sha, index % 2 ? token : undefined), 400)
  t.same(reads, { 200: 400 })
  t.equal((await report('ci')).status, 201)
  await client.query('rollback')
  await Promise.all(waiting)
})

// No caller may wait for three seconds for one of them, so the requests are few.
for (const poolSize of [1, 2, 3]) {
  test(`works with ${poolSize} connections`, async (t) => {
    const { report, read, call, sha, token } = await setUp(t, poolSize)
    const answers = await Promise.all(
      Array.from({ length: 12 }, async (_, index) => {
        const work = [
          () => report(`new ${index}`),
          () => report('ci'),
          () => read('acme/rocket', sha, token),
          () => call('GET', `/acme/rocket/commits/${sha}`),
        ][index % 4]
        const answer = await work?.()
        // Why it failed, if it did.
        return answer?.status === 503 ? answer.body : answer?.status
      }),
    )
    t.same([...new Set(answers)].sort(), [200, 201])
  })
}

test('a database that refuses connections is unavailable, whatever its error is called', async (t) => {
  const { databaseUrl } = await postgres.create(t)
  assert(databaseUrl)
  const other = new Client({
    connectionString: Object.assign(new URL(databaseUrl), { pathname: 'postgres' }).href,
  })
  await other.connect()
  t.teardown(() => other.end())
  const name = new URL(databaseUrl).pathname.slice(1)
  await other.query(
    `create role ${name} login password 'secret'; revoke connect on database ${name} from public`,
  )
  t.teardown(() => other.query(`grant connect on database ${name} to public; drop role ${name}`))
  const withoutRight = Object.assign(new URL(databaseUrl), { username: name, password: 'secret' }).href
  const open = (databaseUrl: string) => openStore({ dataDir: t.testdir(), databaseUrl })
  await t.rejects(open(withoutRight), { name: 'StoreUnavailable', message: /permission denied for database/ })

  await other.query(`alter database ${name} with allow_connections false`)
  t.teardown(() => other.query(`alter database ${name} with allow_connections true`))
  const message = /not currently accepting connections/
  await t.rejects(open(databaseUrl), { name: 'StoreUnavailable', message })
})

test('a pooler that mixes up the sessions of its clients is found', async (t) => {
  const { databaseUrl } = await postgres.create(t)
  assert(databaseUrl)
  t.equal(await sharesSessions(databaseUrl), false)
  // It takes turns, or gives out the session that was used last.
  for (const choose of [(turn: number, count: number) => turn % count, () => 0])
    t.equal(await sharesSessions(await startPooler(t, databaseUrl, choose)), true)
})

test('a connection that was opened after others were lost is kept when those are used', async (t) => {
  const { client, options } = await setUp(t, 10)
  const connections = new Connections(options.databaseUrl ?? '', 3, 0)
  t.teardown(() => connections.end())
  const pidOf = async (session: Awaited<ReturnType<typeof connections.connect>>) =>
    (await session.query<{ pid: number }>('select pg_backend_pid() as pid', [])).rows[0]?.pid
  // Released also if the test fails: `end` waits for that.
  const connect = async () => {
    const session = await connections.connect('read')
    t.teardown(() => session.release())
    return session
  }
  const old = [await connect(), await connect()]
  for (const session of old)
    await client.query('select pg_terminate_backend($1, 5000)', [await pidOf(session)])
  const [first, second] = old
  await t.rejects(async () => first && pidOf(first), { name: 'StoreUnavailable' })
  const opened = await connections.connect('read')
  const pid = await pidOf(opened).finally(() => opened.release())
  await t.rejects(async () => second && pidOf(second), { name: 'StoreUnavailable' })
  t.equal(await pidOf(await connect()), pid)
})

/** Starts a pooler that chooses a session for each statement, as one with transactions does. */
async function startPooler(
  t: Test,
  databaseUrl: string,
  choose: (turn: number, count: number) => number,
): Promise<string> {
  const { hostname, port } = new URL(databaseUrl)
  const sessions: Socket[] = []
  const clients = new Map<Socket, Socket>()
  let turn = 0
  const pooler = createServer((client) => {
    const own = connect(Number(port), hostname)
    own.on('error', () => {})
    t.teardown(() => own.destroy())
    own.on('data', (answer) => {
      // ReadyForQuery ends what begins a session.
      if (!sessions.includes(own) && answer.subarray(-6, -1).equals(Buffer.from('Z\0\0\0\x05', 'latin1')))
        sessions.push(own)
      clients.get(own)?.write(answer)
    })
    client.on('data', (message) => {
      const session = sessions.includes(own) ? sessions[choose(turn++, sessions.length)] : own
      if (!session) return
      clients.set(session, client)
      session.write(message)
    })
    client.on('error', () => {})
  })
  pooler.listen(0, '127.0.0.1')
  await once(pooler, 'listening')
  t.teardown(() => pooler.close())
  const { port: own } = pooler.address() as AddressInfo
  return Object.assign(new URL(databaseUrl), { port: String(own), hostname: '127.0.0.1' }).href
}
