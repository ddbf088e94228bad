import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { hashPassword } from '../../src/auth/password.ts'
import { createToken } from '../../src/auth/token.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases } from '../helpers/databases.ts'
import { type HeldRequest, holdRequest, signInForm } from '../helpers/held-request.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { csrfOf, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { startServer } from '../helpers/server.ts'

/**
 * Guesses at a password, a token and the token of the metrics, as an attacker would: thousands at
 * once, in two processes over one database, on connections that were opened before; then from many
 * addresses; then while a process is killed.
 */
const SIGN_INS = Number(process.env.SOAK_SIGN_INS ?? 3_000)
const LIMIT = 30
const METRICS_TOKEN = 'metrics-token-of-this-test'
const ATTACKERS = 20

tap.setTimeout(900_000)
await provideDatabases(tap)

type Attempt = () => Promise<number>

async function setUp(t: Test, database: (typeof databases)[number]) {
  const { store, options, ...admin } = await startServer(t, { database })
  await asAdministrator(store).users.create('alice', { passwordHash: await hashPassword(PASSWORD) })
  await admin.createRepository('alice/rocket', { private: true, commits: 0 })
  const start = () =>
    startInstance(t, options, {
      AUTH_FAILURE_LIMIT: String(LIMIT),
      TRUSTED_PROXIES: '127.0.0.1',
      METRICS_TOKEN,
    })
  const servers = [await start(), await start()]
  const client = openPageClient(servers[0]?.url ?? '')
  const csrf = csrfOf((await client.get('/login')).body)
  const browser = { cookie: client.cookieHeader(), csrf }

  /** A sign-in of which nothing but the headers is sent, or half of the body too. */
  async function open(server: Instance, address: string, password: string, half = false): Promise<Attempt> {
    const { headers, body } = signInForm(browser, 'alice', password)
    const all = { ...headers, 'x-forwarded-for': address }
    const held: HeldRequest = await holdRequest('POST', `${server.url}/login`, all, body.length)
    const sent = half ? 20 : 0
    if (half) held.send(body.slice(0, sent))
    return async () => (await held.finish(body.slice(sent))).status
  }
  const get = async (server: Instance, path: string, address: string, secret: string) => {
    const headers = { authorization: `Bearer ${secret}`, 'x-forwarded-for': address }
    const response = await fetch(server.url + path, { headers })
    await response.body?.cancel()
    return response.status
  }
  return { store, servers, open, get, start }
}

/** How often each status came. */
function count(statuses: readonly (number | string)[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

for (const database of databases) {
  tap.test(`${SIGN_INS} sign-ins that were opened before, over ${database.name}`, async (t) => {
    const { servers, open } = await setUp(t, database)
    const address = '192.0.2.1'
    const pick = (index: number) => {
      const server = servers[index % servers.length]
      if (!server) throw new Error('there is one for every index')
      return server
    }
    const wrong: Attempt[] = []
    while (wrong.length < SIGN_INS) {
      const batch = Array.from({ length: 100 }, (_, index) =>
        open(pick(index), address, `guess ${wrong.length + index}`, index % 4 < 2),
      )
      wrong.push(...(await Promise.all(batch)))
    }
    const right = await Promise.all([0, 1].map((index) => open(pick(index), address, PASSWORD)))
    const since = performance.now()
    const outcomes = await Promise.all(wrong.map((finish) => finish()))
    const seconds = ((performance.now() - since) / 1000).toFixed(1)
    const late = await Promise.all(right.map((finish) => finish()))
    t.comment(`${JSON.stringify(count(outcomes))} in ${seconds} s, the right password ${late}`)
    const { 401: failed, 429: blocked = 0, 503: busy = 0, ...others } = count(outcomes)
    t.equal(failed, LIMIT)
    // More than a queue holds may come at once; then nothing is compared or counted.
    t.equal(blocked + busy, SIGN_INS - LIMIT)
    t.same(others, {})
    t.same(late, [429, 429])
  })

  tap.test(`all kinds of secrets at once, from many addresses, over ${database.name}`, async (t) => {
    const { servers, open, get } = await setUp(t, database)
    const [one, two] = servers
    if (!one || !two) throw new Error('there are two')
    const path = `/api/v1/repos/alice/rocket/commits/${'0'.repeat(40)}/statuses`
    for (let round = 0; round < 10; round++) {
      const address = `192.0.2.${round}`
      const held = await Promise.all(
        Array.from({ length: 40 }, (_, index) => open(index % 2 ? one : two, address, `guess ${index}`)),
      )
      const kinds: Attempt[] = [
        () => get(one, path, address, createToken()),
        () => get(two, path, address, createToken()),
        () => get(one, '/metrics', address, createToken()),
        () => get(two, '/metrics', address, createToken()),
      ]
      const outcomes = await Promise.all([
        ...held.map((finish) => finish()),
        ...Array.from({ length: 160 }, (_, index) => kinds[index % kinds.length]?.() ?? 0),
      ])
      t.same(count(outcomes), { 401: LIMIT, 429: 200 - LIMIT }, `address ${round}`)
    }

    const flood = new AbortController()
    const statuses: number[] = []
    const attackers = Array.from({ length: ATTACKERS }, async (_, index) => {
      for (let attempt = 0; !flood.signal.aborted; attempt++) {
        const address = `198.51.${attempt % 250}.${index}`
        statuses.push(await (await open(attempt % 2 ? one : two, address, 'guess'))())
      }
    })
    await setTimeout(2_000)
    const latencies: number[] = []
    for (let index = 0; index < 10; index++) {
      const since = performance.now()
      const before = statuses.length
      t.equal(await (await open(one, '203.0.113.1', PASSWORD))(), 303)
      latencies.push(Math.round(performance.now() - since))
      const meanwhile = statuses.length - before
      t.ok(meanwhile <= 2 * ATTACKERS, `${meanwhile} attempts of others are answered before a right one`)
      await setTimeout(200)
    }
    flood.abort()
    await Promise.all(attackers)
    t.comment(`${JSON.stringify(count(statuses))} for ${ATTACKERS} attackers; sign-ins took ${latencies} ms`)
  })

  tap.test(`a process that is killed while it compares, over ${database.name}`, async (t) => {
    const { store, servers, open, start } = await setUp(t, database)
    const [survivor, first] = servers
    if (!survivor || !first) throw new Error('there are two')
    let victim = first
    let compared = 0
    for (let round = 0; round < 5; round++) {
      const address = `192.0.2.${round}`
      const pair = [victim, survivor]
      const held = await Promise.all(
        pair.flatMap((server) =>
          Array.from({ length: 50 }, (_, index) => open(server, address, `guess ${index}`)),
        ),
      )
      const exited = once(victim.child, 'exit')
      const { child } = victim
      const answers: Promise<number | string>[] = held.map((finish, index) =>
        finish().then(
          (status) => {
            if (status === 401 && index < 50 && !child.killed) child.kill('SIGKILL')
            return status
          },
          () => 'lost',
        ),
      )
      const outcomes = count(await Promise.all(answers))
      child.kill('SIGKILL')
      await exited
      victim = await start()
      const found = await store.failures.find(address)
      t.comment(`${JSON.stringify(outcomes)}, ${found?.failures} counted`)
      t.ok(Number(outcomes[401]) <= LIMIT && Number(found?.failures) <= LIMIT)
      compared += Number(outcomes[401])
    }
    t.ok(compared > 0)
  })
}
