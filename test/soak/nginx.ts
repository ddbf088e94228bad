import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { list, object, text } from '../contract/json.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { type TestDatabase, temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { git } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { addToken } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { startLoad } from './parts/load.ts'
import { startNginx } from './parts/nginx.ts'

/**
 * Three instances on one PostgreSQL and one folder of repositories, behind a real nginx with the
 * configuration that is shipped.
 */
const INSTANCES = 3
const REPORTERS = 8
const OUTAGES = 10
const LIMIT = 30
/** Bad credentials at once; nginx lets through 100 requests of one address. */
const ATTEMPTS = 90

tap.setTimeout(600_000)

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

tap.test('three instances behind a real nginx', async (t) => {
  const postgres = await startPostgres()
  t.teardown(() => postgres.stop())
  const database: TestDatabase = {
    name: 'PostgreSQL',
    create: async (t) => ({ dataDir: temporaryFolder(t), databaseUrl: postgres.url }),
  }
  const { store, options, ...admin } = await startServer(t, { database })
  const secret = await admin.createToken('alice')
  const { path, commits } = await admin.createRepository('alice/rocket', { private: true })
  const [sha = ''] = commits
  const ports = await Promise.all(Array.from({ length: INSTANCES }, freePort))
  const environment = { TRUSTED_PROXIES: '127.0.0.1', AUTH_FAILURE_LIMIT: String(LIMIT) }
  const start = (port = 0) => startInstance(t, options, { ...environment, PORT: String(port) })
  const instances = await Promise.all(ports.map(start))
  const [port, plain] = [await freePort(), await freePort()]
  await startNginx(t, port, plain, ports)
  const url = `http://127.0.0.1:${port}`
  const statusesAt = (origin: string) => `${origin}/api/v1/repos/alice/rocket/commits/${sha}/statuses`
  const report = (context: string, description: string) =>
    fetch(`${url}/api/v1/repos/alice/rocket/statuses/${sha}`, {
      method: 'POST',
      headers: { ...bearer(secret), 'content-type': 'application/json' },
      body: JSON.stringify({ state: 'success', context, description }),
    })

  await t.test('headers of nginx', async (t) => {
    const redirect = await fetch(`http://127.0.0.1:${plain}/login?next=%2Fx`, { redirect: 'manual' })
    t.equal(redirect.status, 301)
    t.equal(redirect.headers.get('location'), 'https://127.0.0.1/login?next=%2Fx')
    for (const path of ['/healthz', '/nowhere'])
      t.match((await fetch(url + path)).headers.get('strict-transport-security'), /^max-age=\d{7,}$/)
  })

  await t.test(`of ${ATTEMPTS} bad credentials at once, ${LIMIT} are answered 401`, async (t) => {
    const answers = await Promise.all(
      Array.from({ length: ATTEMPTS }, async () => {
        const answer = await fetch(statusesAt(url), { headers: bearer(createToken()) })
        await answer.arrayBuffer()
        return answer.status
      }),
    )
    const count = (status: number) => answers.filter((answer) => answer === status).length
    t.same([count(401), count(429)], [LIMIT, ATTEMPTS - LIMIT])
    t.ok(await asAdministrator(store).failures.lift('127.0.0.1'))
  })

  await t.test('a revoked token is refused by every instance at the next request', async (t) => {
    const token = await addToken(store, await admin.createUser('alice'))
    const ask = async (instance: number) => {
      const url = statusesAt(`http://127.0.0.1:${instance}`)
      return (await fetch(url, { headers: bearer(token.secret) })).status
    }
    for (const instance of ports) t.equal(await ask(instance), 200)
    await asAdministrator(store).tokens.revoke(token.id)
    for (const instance of ports) t.equal(await ask(instance), 401)
    await asAdministrator(store).failures.lift('127.0.0.1')
  })

  await t.test('git clones and pushes through nginx', async (t) => {
    const folder = temporaryFolder(t)
    const checkout = join(folder, 'checkout')
    const remote = `http://x:${secret}@127.0.0.1:${port}/alice/rocket.git`
    git(folder, 'clone', '--quiet', remote, checkout)
    writeFileSync(join(checkout, 'large'), Buffer.alloc(20e6, Math.random().toString()))
    git(checkout, 'add', 'large')
    git(checkout, 'commit', '--quiet', '--message', 'large')
    git(checkout, 'push', '--quiet', 'origin', 'HEAD:refs/heads/large')
    t.equal(git(path, 'rev-parse', 'large'), git(checkout, 'rev-parse', 'HEAD'))
  })

  await t.test('nothing that was acknowledged is lost', async (t) => {
    const acknowledged = new Map<string, number>()
    const load = startLoad(REPORTERS, async (worker, number) => {
      const answer = await report(`reporter ${worker}`, String(number))
      const body = object(await answer.json(), 'the answer')
      if (answer.status === 201) {
        t.equal(body.description, String(number))
        acknowledged.set(`reporter ${worker}`, number)
      } else {
        t.type(body.error, 'string')
        await setTimeout(20)
      }
      return answer.status
    })
    for (let outage = 0; outage < OUTAGES; outage++) {
      await setTimeout(1_500)
      const index = outage % INSTANCES
      if (outage % 2 === 0) {
        instances[index]?.child.kill('SIGKILL')
        instances[index] = await start(ports[index])
      } else {
        await postgres.crash()
      }
    }
    await setTimeout(3_000)
    await load.stop()
    const answer = await fetch(statusesAt(url), { headers: bearer(secret) })
    const stored = new Map<string, number>(
      list(object(await answer.json(), 'the statuses').statuses).map((entry) => {
        const { context, description } = object(entry, 'a status')
        return [text(context, 'context'), Number(description)]
      }),
    )
    for (const [context, number] of acknowledged)
      t.ok((stored.get(context) ?? 0) >= number, `${context} lost no report`)
    t.comment(`${OUTAGES} times an instance killed or PostgreSQL crashed: ${JSON.stringify(load.answers)}`)
    t.same(Object.keys(load.answers).sort(), ['201', '503'])
  })

  const tooLarge = await report('large', 'x'.repeat(200_000))
  t.equal(tooLarge.status, 413)
  t.match(await tooLarge.json(), { error: String }, "nginx's own 413 as JSON")
  for (const { child } of instances) {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    t.same(await exited, [0, null], 'every instance ends with 0')
  }
  const answer = await fetch(statusesAt(url))
  t.equal(answer.status, 503, 'no instance is left')
  t.equal(answer.headers.get('retry-after'), '2')
  t.match(await answer.json(), { error: String }, 'as JSON')
})
