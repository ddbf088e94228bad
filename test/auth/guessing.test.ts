import t from 'tap'
import { hashPassword } from '../../src/auth/password.ts'
import { parseCidr } from '../../src/http/address.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases } from '../helpers/databases.ts'
import { holdRequest, signInForm } from '../helpers/held-request.ts'
import { startInstance } from '../helpers/instance.ts'
import { createAccount, csrfOf, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const LIMIT = 5
const SIGN_INS = 60
const METRICS_TOKEN = 'metrics-token-of-this-test'

t.jobs = databases.length

for (const database of databases) {
  t.test(`requests opened before the budget was spent, in two processes on ${database.name}`, async (t) => {
    const budget = { limit: LIMIT, window: 300 }
    const server = await startServer(t, { database, budget, metricsToken: METRICS_TOKEN })
    await createAccount(server, 'alice')
    const { commits } = await server.createRepository('alice/rocket', { private: true })
    const token = await server.createToken('alice')
    const environment = { AUTH_FAILURE_LIMIT: String(LIMIT), METRICS_TOKEN }
    const servers = [server, await startInstance(t, server.options, environment)]
    const urlOf = (index: number) => servers[index % servers.length]?.url ?? ''
    const client = openPageClient(urlOf(0))
    const csrf = csrfOf((await client.get('/login')).body)
    const browser = { cookie: client.cookieHeader(), csrf }

    /** Opens a sign-in. Every second one has sent half of its body. */
    async function openSignIn(index: number, name: string, password: string) {
      const { headers, body } = signInForm(browser, name, password)
      const held = await holdRequest('POST', `${urlOf(index)}/login`, headers, body.length)
      const sent = index % 4 < 2 ? 0 : body.length / 2
      if (sent > 0) held.send(body.slice(0, sent))
      return () => held.finish(body.slice(sent))
    }
    const openAll = (count: number, name: string, password: string) =>
      Promise.all(Array.from({ length: count }, (_, index) => openSignIn(index, name, password)))
    const openReport = async (index: number) => {
      const body = '{"state":"success"}'
      const url = `${urlOf(index)}/api/v1/repos/alice/rocket/statuses/${commits[0]}`
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      const held = await holdRequest('POST', url, headers, body.length)
      return () => held.finish(body)
    }
    const openFetch = async (index: number) => {
      const url = `${urlOf(index)}/alice/rocket.git/git-upload-pack`
      const headers = {
        authorization: `Bearer ${token}`,
        'content-type': 'application/x-git-upload-pack-request',
      }
      const held = await holdRequest('POST', url, headers, 4)
      return () => held.finish('0000')
    }

    // An unknown name is compared at full cost, so that a queue forms.
    const [wrong, right, reports, fetches] = await Promise.all([
      openAll(SIGN_INS, 'nobody', 'wrong horse'),
      openAll(4, 'alice', PASSWORD),
      Promise.all([openReport(0), openReport(1)]),
      Promise.all([openFetch(0), openFetch(1)]),
    ])
    const answers = await Promise.all(wrong.map((finish) => finish()))
    const withStatus = (wanted: number) => answers.filter(({ status }) => status === wanted)
    t.equal(withStatus(401).length, LIMIT)
    t.equal(withStatus(429).length, SIGN_INS - LIMIT)
    for (const { headers } of withStatus(429)) t.match(headers['retry-after'], /^[1-9]\d*$/)

    for (const finish of right) t.equal((await finish()).status, 429, 'the right password is not compared')
    for (const { url } of servers) {
      const headers = { authorization: `Bearer ${METRICS_TOKEN}` }
      t.equal((await fetch(`${url}/metrics`, { headers })).status, 429, 'nor is the metrics token')
    }
    for (const finish of reports) t.equal((await finish()).status, 201, 'a good token was checked before')
    for (const finish of fetches) t.equal((await finish()).status, 200, 'for git as well')
  })
}

t.test('a sign-in succeeds during a flood of attempts from other addresses', async (t) => {
  const { store, url } = await startServer(t, {
    budget: { limit: 1_000, window: 300 },
    trustedProxies: [parseCidr('127.0.0.1')],
  })
  await asAdministrator(store).users.create('alice', { passwordHash: await hashPassword(PASSWORD) })
  const [attacker, alice] = [openPageClient(url), openPageClient(url)]
  const submit = async (client: typeof alice, address: string, password: string, csrf: string) => {
    const headers = { 'x-forwarded-for': address }
    const form = { csrf, name: 'alice', password }
    return (await client.send('POST', '/login', { headers, form })).status
  }
  const csrf = csrfOf((await attacker.get('/login')).body)
  const own = csrfOf((await alice.get('/login')).body)
  const statuses: number[] = []
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const flood = Array.from({ length: 24 }, async (_, index) => {
    statuses.push(await submit(attacker, `192.0.2.${index % 3}`, 'wrong horse', csrf))
    begin()
  })
  await begun
  const before = statuses.length
  t.equal(await submit(alice, '198.51.100.1', PASSWORD, own), 303)
  const meanwhile = statuses.length - before
  t.ok(meanwhile < 10, `${meanwhile} attempts of the flood were answered in the meantime`)
  await Promise.all(flood)
  // On a slow machine some of them time out in the queue.
  t.same(
    [...new Set(statuses)].filter((status) => status !== 503).join(),
    '401',
    'the attempts of the flood are compared too',
  )
})
