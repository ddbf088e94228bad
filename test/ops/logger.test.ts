import t from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { recordLog } from '../helpers/log.ts'

t.test('redacts secrets at any depth', async (t) => {
  const { logger, lines } = recordLog('info')
  const token = createToken()
  const secrets = {
    authorization: `token ghp_somebodyelse0123456789`,
    a: { b: { c: { d: { Authorization: 'Bearer opensesame', password: 'p"w\\"1234', ok: 'kept' } } } },
    list: [{ deep: [{ cookie: 'session=abcdef; x=y' }] }, ['authorization', 'Basic YWxhZGRpbg==']],
    headers: {
      'set-cookie': ['__Host-session=secretcookie; Path=/', 'b="quoted'],
      'x-request-id': 'kept-id',
    },
    env: { METRICS_TOKEN: 'prometheus-secret', DATABASE_URL: 'postgres://u:hunter2@db/x' },
    metricsToken: 'prometheus-secret-2',
    password_hash: '$argon2id$secrethash',
    text: `somebody sent ${token} and Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaa`,
    url: 'postgres://alice:hunter3@db.example.org:5432/statuses',
    path: `/alice/rocket/Bearer%20${token}`,
    command:
      'git -c http.extraHeader="Authorization: Bearer  aaaaaaaaaaaaaaaa" fetch https://x:hunter4@5@example.org/',
  }
  logger.info(secrets, `and ${token} in the message`)
  logger.error({ err: Object.assign(new Error(`no way with ${token}`), { config: secrets }) }, 'failed')
  logger.child({ token }).warn('of a child')

  t.equal(lines.length, 3)
  for (const line of lines) {
    t.type(JSON.parse(line).time, 'number', 'is JSON')
    t.notMatch(
      line,
      /ghp_|opensesame|1234|session=|YWxh|secretcookie|quoted|prometheus-secret|hunter|secrethash|cst_|aaaaaaa/,
    )
  }
  const [first = '', second = ''] = lines
  t.match(JSON.parse(first), {
    a: { b: { c: { d: { Authorization: '[redacted]', ok: 'kept' } } } },
    headers: { 'x-request-id': 'kept-id' },
    url: 'postgres://alice:[redacted]@db.example.org:5432/statuses',
    command:
      'git -c http.extraHeader="Authorization: Bearer  [redacted]" fetch https://x:[redacted]@example.org/',
    msg: 'and [redacted] in the message',
  })
  t.match(JSON.parse(second).err.stack, /logger\.test/, 'with the stack of an error')
})
