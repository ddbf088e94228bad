import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { createTokenUseTracker } from '../../src/auth/token-use.ts'
import { createLogger } from '../../src/ops/logger.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { openTestStore, sqlite } from '../helpers/databases.ts'
import { recordLog } from '../helpers/log.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

const DAY = 86_400_000

t.test('a token in use that expires within a week is logged once a day', async (t) => {
  const { logger, lines } = recordLog('warn')
  const server = await startServer(t, { database: sqlite, logger })
  const { commits } = await server.createRepository('alice/rocket')
  const use = (token: string) => server.read('alice/rocket', commits[0] ?? '', token)
  const create = (name: string, days: number) =>
    server.createToken('alice', { name, expiresAt: Date.now() + days * DAY })
  const tokens = [await create('soon', 6.9), await create('later', 7.1), await server.createToken('alice')]
  for (const token of [...tokens, ...tokens]) t.equal((await use(token)).status, 200)
  await until(async () => (await server.store.tokens.list()).every((token) => token.lastUsedAt !== null))
  const warned = () => lines.map((line) => JSON.parse(line)).map(({ user, token_name }) => [user, token_name])
  t.same(warned(), [['alice', 'soon']])
  t.match(JSON.parse(lines[0] ?? ''), {
    msg: /expires soon/,
    expires_at: /^\d{4}-/,
    token_id: /^[0-9a-f]{16}$/,
  })

  const { now } = Date
  t.capture(Date, 'now', () => now() + 1.1 * DAY)
  for (const token of tokens) t.equal((await use(token)).status, 200)
  t.same(warned().sort(), [
    ['alice', 'later'],
    ['alice', 'soon'],
    ['alice', 'soon'],
  ])
})

t.test('closing waits until the last uses are written', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { id: userId } = await asAdministrator(store).users.create('alice')
  const token = { userId, name: '', prefix: '', scopes: [], expiresAt: null }
  const { id } = await asAdministrator(store).tokens.create({ ...token, hash: 'hash' })
  const touch = async (uses: ReadonlyMap<string, number>) => {
    // As long as a busy database may take.
    await setTimeout(50)
    await store.tokens.touch(uses)
  }
  const tracker = createTokenUseTracker({ ...store.tokens, touch }, createLogger('silent'))
  const useAt = async (time: number) => {
    const { token } = await store.access.find(null, 'hash', 'a', 'b')
    t.ok(token)
    if (token) tracker.record(token, time)
    await tracker.close()
    return store.tokens.list(userId)
  }
  t.match(await useAt(1_700_000_000), [{ id, lastUsedAt: 1_700_000_000 }])
  t.match(await useAt(1_700_000_059), [{ lastUsedAt: 1_700_000_000 }], 'written at most once a minute')
  t.match(await useAt(1_700_000_060), [{ lastUsedAt: 1_700_000_060 }])
})
