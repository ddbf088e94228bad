import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { isHttpUrl } from '../../src/api/validator.ts'
import { parseCidr } from '../../src/http/address.ts'
import { redactLine } from '../../src/ops/redact.ts'
import { localPath } from '../../src/web/pages/sign-in/sign-in-page.ts'
import { readTokenForm } from '../../src/web/pages/tokens/form.ts'
import { startServer } from '../helpers/server.ts'

/** Length of one header or path; all headers together may be 16 KB long. */
const HEADER_LENGTH = 15_800
const BODY_LENGTH = 64 * 1024
/**
 * Milliseconds of CPU time for one request. Linear code takes about one, quadratic code hundreds.
 */
const LIMIT = 120
/** Milliseconds of CPU time for a value of the length of a body. Quadratic code takes seconds. */
const BODY_LIMIT = 800
const ATTEMPTS = 3

const units = [
  ' ',
  '\t',
  'a',
  'a ',
  ',',
  'a,',
  ', ',
  ';',
  'a;',
  '; ',
  '=',
  'a=',
  'a=b;',
  ':',
  '::',
  '0:',
  '/',
  '//:x',
].concat([
  '"',
  '"a"',
  '"a",',
  '\\"',
  '\\',
  'a="',
  'W/"',
  'W/',
  '-',
  '-gzip',
  '@',
  '%20',
  '.',
  '10.0.0.1,',
  'Bearer ',
  'text/html',
])
const fill = (unit: string, length: number) => unit.repeat(Math.ceil(length / unit.length)).slice(0, length)

t.test('headers and paths are processed in linear time', async (t) => {
  const server = await startServer(t, {
    budget: { limit: 1, window: 3600 },
    metricsToken: 'metrics',
    trustedProxies: [parseCidr('127.0.0.1')],
    verifyReplies: false,
  })
  const { commits } = await server.createRepository('alice/rocket')
  const read = `/api/v1/repos/alice/rocket/commits/${commits[0]}/statuses`
  const reports = `/api/v1/repos/alice/rocket/statuses/${commits[0]}`

  const send = async (method: string, path: string, headers: Record<string, string>): Promise<number> => {
    const sent = request(server.url + path, { method, headers })
    sent.end()
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    sent.on('error', reject).on('response', (response) => {
      text(response).then(() => resolve(response.statusCode ?? 0), reject)
    })
    return promise
  }
  const slow: string[] = []
  const attempt = async (method: string, path: string, headers: Record<string, string>) => {
    const best = await bestTime(() => send(method, path, headers))
    if (best > LIMIT)
      slow.push(`${method} ${path.slice(0, 60)} ${JSON.stringify(headers).slice(0, 60)}: ${best} ms`)
  }

  t.equal(await send('GET', read, { authorization: 'Bearer wrong' }), 401)
  t.equal(
    await send('GET', read, { authorization: `A${' '.repeat(HEADER_LENGTH)}B` }),
    429,
    'from a blocked address',
  )

  const everywhere = [
    'authorization',
    'cookie',
    'accept',
    'if-none-match',
    'x-forwarded-proto',
    'x-forwarded-host',
  ]
  const gets = [read, '/', '/no/such/path']
  for (const name of everywhere) {
    for (const unit of units) {
      for (const path of gets) await attempt('GET', path, { [name]: `A${fill(unit, HEADER_LENGTH)}B` })
    }
  }
  for (const unit of [...units, '127.0.0.1,']) {
    for (const start of ['', '[', '"', '1.1.1.1:'])
      await attempt('GET', read, { 'x-forwarded-for': start + fill(unit, HEADER_LENGTH) })
    await attempt('GET', '/metrics', { authorization: `Bearer ${fill(unit, HEADER_LENGTH)}B` })
    await attempt('GET', '/alice/rocket.git/info/refs?service=git-upload-pack', {
      authorization: `Basic ${fill(unit, HEADER_LENGTH)}B`,
    })
    await attempt('GET', '/assets/page.js', { 'if-none-match': `"${fill(unit, HEADER_LENGTH)}` })
    await attempt('GET', '/alice/rocket.git/info/refs?service=git-upload-pack', {
      'git-protocol': `${fill(unit, HEADER_LENGTH)}B`,
    })
    for (const path of [reports, '/login', '/alice/rocket.git/git-upload-pack']) {
      await attempt('POST', path, { 'content-type': `application/json${fill(unit, HEADER_LENGTH)}B` })
      await attempt('POST', path, { 'content-type': `application/json; a="${fill(unit, HEADER_LENGTH)}` })
      await attempt('POST', path, { 'content-encoding': `A${fill(unit, HEADER_LENGTH)}B` })
    }
  }
  for (const unit of [
    '/',
    'a',
    'a/',
    '.',
    './',
    '../',
    '%20',
    '%2F',
    ';',
    '&',
    '&a',
    '&a=',
    'after=a&',
    '?',
    '%',
  ]) {
    const rest = fill(unit, HEADER_LENGTH)
    const known = '/api/v1/repos/alice'
    for (const path of [
      '/',
      '/?',
      '/login?next=/',
      `${known}/`,
      `${known}/rocket/commits/`,
      '/alice/rocket.git/',
    ]) {
      for (const method of ['GET', 'POST']) await attempt(method, path + rest, {})
    }
  }
  t.same(slow, [])
})

t.test('fields of bodies and log lines are processed in linear time', async (t) => {
  const functions: Record<string, (value: string) => unknown> = {
    localPath: (value) => [localPath(`/${value}`), localPath(`/a?${value}`)],
    readTokenForm: (value) => [
      readTokenForm(
        new URLSearchParams({ name: value, date: value, expiry: 'date', contexts: value }),
        0,
        [],
        null,
      ),
      readTokenForm(new URLSearchParams({ name: `a${value}b` }), 0, [], null),
    ],
    isHttpUrl: (value) => [
      isHttpUrl(value),
      isHttpUrl(`http://${value}`),
      isHttpUrl(`http://e.org/${value}`),
    ],
    redactLine: (value) =>
      redactLine(JSON.stringify({ msg: `${value}@`, url: `//${value}`, token: [value], [value]: value })),
  }
  const more = [
    '//:x',
    '//',
    ':@',
    '"token":',
    'token ',
    'basic',
    'cst_',
    'password',
    './',
    '../',
    '%2e/',
    '\n',
    '-',
    '0',
  ]
  const slow: string[] = []
  for (const [name, call] of Object.entries(functions)) {
    for (const unit of [...units, ...more]) {
      const value = fill(unit, BODY_LENGTH)
      const best = await bestTime(() => call(value), BODY_LIMIT)
      if (best > BODY_LIMIT) slow.push(`${name} of ${unit} repeated: ${best} ms`)
    }
  }
  t.same(slow, [])
})

/**
 * Returns the CPU time in milliseconds of the best of three attempts: a garbage collection may fall
 * into one of them.
 */
async function bestTime(work: () => unknown, limit = LIMIT): Promise<number> {
  let best = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && best > limit; attempt++) {
    const began = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(began)
    best = Math.min(best, (user + system) / 1000)
  }
  return Math.round(best)
}
