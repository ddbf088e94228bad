import t from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { postgresWithClock, sqliteWithClock } from '../helpers/clock.ts'
import { postgres, sqlite } from '../helpers/databases.ts'
import { createAccount, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const LIMIT = 3
/** Seconds. */
const WINDOW = 300
const METRICS_TOKEN = 'metrics-token-of-this-test'
const HOUR = 3_600

for (const { database, set } of [sqliteWithClock(t, sqlite), postgresWithClock(postgres)]) {
  t.test(`a block never outlasts its window when the clock of ${database.name} is set back`, async (t) => {
    const { store, app, url, ...server } = await startServer(t, {
      database,
      budget: { limit: LIMIT, window: WINDOW },
      metricsToken: METRICS_TOKEN,
    })
    await createAccount({ store }, 'alice')
    const token = await server.createToken('alice')
    const ask = (token: string) => server.read('alice/rocket', '0'.repeat(40), token)
    const block = async () => {
      for (let index = 0; index < LIMIT; index++) t.equal((await ask(createToken())).status, 401)
      const { status, headers } = await ask(token)
      t.equal(status, 429)
      const seconds = Number(headers.get('retry-after'))
      t.ok(seconds > WINDOW - 60 && seconds <= WINDOW, `blocked for ${seconds} s`)
    }

    await block()
    for (const [from, to] of [
      [0, -24 * HOUR],
      [-24 * HOUR, -24 * HOUR - WINDOW],
      [0, WINDOW],
      [WINDOW, 0],
    ] as const) {
      await set(from)
      if ((await ask(token)).status === 404) await block()
      await set(to)
      t.equal((await ask(token)).status, 404, 'a good token is accepted')
      const metrics = await server.call('GET', '/metrics', { token: METRICS_TOKEN })
      t.equal(metrics.status, 200)
      t.match(metrics.body, /^commit_status_blocked_addresses 0$/m)
      t.equal((await openPageClient(url).signIn('alice', PASSWORD)).status, 303)
      t.same(await store.failures.list({ limit: LIMIT, window: WINDOW }), [])
    }
    await block()
    await set(-60)
    const { status, headers } = await ask(token)
    t.ok(status === 404 || Number(headers.get('retry-after')) <= WINDOW)
  })
}
