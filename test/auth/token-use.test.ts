import { Writable } from 'node:stream'
import t from 'tap'
import { createLogger } from '../../src/ops/logger.ts'
import { sqlite } from '../helpers/databases.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

const DAY = 86_400_000

t.test('a token in use that expires within a week is logged once a day', async (t) => {
  const lines: string[] = []
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk))
      done()
    },
  })
  const server = await startServer(t, { database: sqlite, logger: createLogger('warn', destination) })
  const { commits } = await server.createRepository('alice/rocket')
  const use = (token: string) => server.read('alice/rocket', commits[0] ?? '', token)
  const create = (name: string, days: number) =>
    server.createToken('alice', { name, expiresAt: Date.now() + days * DAY })
  const tokens = [await create('soon', 6.9), await create('later', 7.1), await server.createToken('alice')]
  for (const token of [...tokens, ...tokens]) t.equal((await use(token)).status, 200)
  await until(async () => (await server.store.tokens.list()).every((token) => token.last_used_at !== null))
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
