import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { parseCidr } from '../../src/http/address.ts'
import { startServer } from '../helpers/server.ts'

async function setUp(t: Test) {
  const server = await startServer(t)
  const { commits } = await server.createRepository('acme/rocket')
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const path = `/api/v1/repos/acme/rocket/commits/${sha}/statuses`
  return { server, sha, token, path }
}

const shared = await setUp(t)

t.test('ETag and If-None-Match', async (t) => {
  const { server, sha, token, path } = shared
  await server.report('acme/rocket', sha, { state: 'pending' }, token)
  const first = await server.call('GET', path)
  const etag = first.headers.get('etag') ?? ''
  t.match(etag, /^W\/"[^"]+"$/, 'a weak validator')
  t.equal((await server.call('GET', path)).headers.get('etag'), etag, 'the same bytes, the same ETag')
  t.equal((await server.call('GET', path, { token })).headers.get('etag'), etag, 'for every caller')

  const ask = async (ifNoneMatch: string, method = 'GET') =>
    (await server.call(method, path, { headers: { 'if-none-match': ifNoneMatch } })).status
  const strong = etag.slice(2)
  for (const same of [etag, strong, '*', ` ${etag} `, `"x", ${etag}`, `${strong},"y"`, `W/"a,b" , ${etag}`]) {
    t.equal(await ask(same), 304, same)
    t.equal(await ask(same, 'HEAD'), 304, `HEAD ${same}`)
  }
  for (const other of ['"x"', 'W/"x"', strong.slice(1, -1), '', 'W/', '"*"', etag.toLowerCase()]) {
    t.equal(await ask(other), 200, `not ${other}`)
  }

  const realNow = Date.now
  const later = t.capture(Date, 'now', () => realNow() + 86_400_000)
  // The server compares the cached body with a new one.
  t.equal(
    (await server.call('GET', path)).headers.get('etag'),
    etag,
    'nothing in the body changes as time passes',
  )
  later.restore()

  const unchanged = await server.call('GET', path, { headers: { 'if-none-match': etag } })
  t.equal(unchanged.headers.get('etag'), etag, 'a 304 carries the ETag')
  t.notOk(unchanged.headers.has('content-type'))

  await server.report('acme/rocket', sha, { state: 'success' }, token)
  const changed = await server.call('GET', path, { headers: { 'if-none-match': etag } })
  t.equal(changed.status, 200, 'a report changes the ETag')
  t.equal(changed.json.state, 'success')
})

t.test('blanks around the value of Authorization are no part of it', async (t) => {
  const { server, token, path } = shared
  const { hostname, port } = new URL(server.url)
  for (const [value, status] of [
    [`\t Bearer  ${token} \t`, 200],
    [`Bearer ${token}\u00a0`, 401],
  ] as const) {
    const socket = connect(Number(port), hostname)
    socket.end(
      `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: ${value}\r\n\r\n`,
      'latin1',
    )
    t.match(await text(socket), `HTTP/1.1 ${status} `)
  }
})

t.test('If-None-Match is ignored unless the answer would be 200', async (t) => {
  const { server, sha, token } = shared
  const headers = { 'if-none-match': '*' }
  const rows = [
    [401, 'acme/missing', sha, undefined],
    [404, 'acme/missing', sha, token],
    [404, 'acme/rocket', 'f'.repeat(40), undefined],
    [422, 'acme/rocket', 'HEAD', undefined],
  ] as const
  for (const [status, fullName, id, asked] of rows) {
    t.equal((await server.read(fullName, id, asked, headers)).status, status)
  }
  const report = `/api/v1/repos/acme/rocket/statuses/${sha}`
  t.equal((await server.call('POST', report, { token, headers, body: { state: 'success' } })).status, 201)
})

t.test('HEAD follows GET', async (t) => {
  const { server, sha, path } = shared
  const get = await server.call('GET', path)
  const head = await server.call('HEAD', path)
  t.equal(head.status, 200)
  t.equal(head.body, '')
  for (const name of ['etag', 'content-type', 'content-length', 'cache-control', 'vary']) {
    t.equal(head.headers.get(name), get.headers.get(name), name)
  }
  for (const [status, missing] of [
    [401, `/api/v1/repos/acme/missing/commits/${sha}/statuses`],
    [422, path.replace(sha, 'x')],
    [404, path.replace(sha, 'f'.repeat(40))],
    [404, '/api/v1/nothing'],
  ] as const) {
    t.equal((await server.call('HEAD', missing)).status, status, missing)
  }
})

t.test('a wrong method is 405 with Allow', async (t) => {
  const { server, sha, token, path } = shared
  const report = `/api/v1/repos/acme/rocket/statuses/${sha}`
  const rows = [
    ['POST', path, 'GET, HEAD'],
    ['PUT', path, 'GET, HEAD'],
    ['DELETE', path, 'GET, HEAD'],
    ['OPTIONS', path, 'GET, HEAD'],
    ['GET', report, 'POST'],
    ['HEAD', report, 'POST'],
    ['PATCH', report, 'POST'],
    ['OPTIONS', report, 'POST'],
  ] as const
  for (const [method, asked, allow] of rows) {
    // A body that cannot be read is not looked at. fetch sends none with GET and HEAD.
    const body = method === 'GET' || method === 'HEAD' ? {} : { body: '{' }
    const answer = await server.call(method, asked, { token, ...body })
    t.equal(answer.status, 405, `${method} ${asked}`)
    t.equal(answer.headers.get('allow'), allow)
    t.notOk(answer.headers.has('access-control-allow-origin'), 'no CORS headers')
  }
})

t.test('an unknown path is 404 with every method', async (t) => {
  const { server } = shared
  for (const path of [
    '/api/v1',
    '/API/v1',
    '/docs/x',
    '/settings/x',
    '/metrics/x',
    '/%61pi/v1',
    '/login/x/commits/y',
    '/login/x/settings',
    '/login/x/settings/checks',
    '/acme/',
    '/acme//checks',
    '/acme//settings',
    '/acme//settings/checks',
    '/api/v1/repos//rocket/statuses/1',
  ])
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS'])
      t.equal((await server.call(method, path)).status, 404, `${method} ${path}`)
})

t.test('paths are never normalized', async (t) => {
  const { server, sha, token, path } = shared
  const ask = async (asked: string) => (await server.call('GET', asked, { token })).status
  for (const unknown of [
    `${path}/`,
    path.replace('acme', ''),
    path.replace('/repos', '//repos'),
    path.replace('/api/', '/API/'),
    path.replace('/statuses', '/Statuses'),
    path.replace('/v1/', '/v2/'),
  ]) {
    t.equal(await ask(unknown), 404, unknown)
    const { body } = await server.call('GET', unknown)
    t.match(body, /path does not exist/, `an unknown path: ${unknown}`)
  }
  t.equal(await ask(path.replace('acme', '%61cme')), 200, 'an escaped letter equals the letter')
  t.equal(await ask(path.replace(sha, sha.toUpperCase())), 200)
  t.equal(await ask(`${path}?x=1`), 200, 'a query is ignored')
  for (const malformed of ['%', '%zz', '%ff', '%c3%28', '%ed%a0%80']) {
    const answer = await fetch(server.url + path.replace('acme', malformed))
    t.equal(answer.status, 400, `a malformed URL: ${malformed}`)
    t.match(await answer.json(), { error: /^The URL is malformed/ })
  }
})

t.test("every answer has its own X-Request-Id, never the caller's", async (t) => {
  const { server, path } = shared
  const ids = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const answer = await server.call('GET', path, { headers: { 'x-request-id': 'mine' } })
      return answer.headers.get('x-request-id')
    }),
  )
  t.equal(new Set(ids).size, 20)
  t.notOk(ids.includes('mine'))
})

t.test('an X-Request-Id of a trusted proxy is kept, if it is short and plain', async (t) => {
  const server = await startServer(t, { trustedProxies: [parseCidr('127.0.0.1')] })
  const idOf = async (id: string) =>
    (await server.call('GET', '/healthz', { headers: { 'x-request-id': id } })).headers.get('x-request-id')
  for (const id of ['mine', '0.ab:c_D-e', 'x'.repeat(64)]) t.equal(await idOf(id), id)
  for (const id of ['', 'x'.repeat(65), 'two words', '"quoted"', 'caf\u00e9', 'a,b'])
    t.match(await idOf(id), /^[\da-f-]{36}$/, id)
})

t.test('the ETag depends only on the body', async (t) => {
  const first = await setUp(t)
  const second = await setUp(t)
  const etagOf = async ({ server, path }: typeof first) =>
    (await server.call('GET', path)).headers.get('etag')
  t.equal(await etagOf(first), await etagOf(second), 'two servers and two commits with the same bytes')
  const { body } = await first.server.call('GET', first.path)
  t.equal(body, '{"state":null,"statuses":[]}')
})
