import t from 'tap'
import { CommitStatusError, createClient, type Status, unwrap } from '../src/index.ts'
import { startService } from './helpers/service.ts'

t.test('an argument that is none of the operation is named, and nothing is sent', async (t) => {
  const { proxy, token, commit } = await startService(t)
  const client = createClient({ baseUrl: proxy.url, token })
  // As a program in JavaScript passes them.
  const ask = (more: object) => client.getVerdict({ ...commit, ...more })
  const rows: [more: object, error: RegExp][] = [
    [
      { query: { require: 'a' } },
      /^not sent: getVerdict: the argument "query" is an object; parameters are arguments/,
    ],
    [{ require: ['a', {}] }, /the argument "require" is an array of other things/],
    [{ branch: null }, /the argument "branch" is null/],
    [{ sha: undefined }, /the argument "sha" is missing$/],
    [{ sha: '' }, /the argument "sha" is missing$/],
  ]
  for (const [more, error] of rows)
    t.match(await ask(more), { status: 0, body: { error, reason: 'refused' } }, JSON.stringify(more))
  t.equal(proxy.passages.length, 0)
})

t.test('each status code of the contract is a result of its own type', async (t) => {
  const { server, token, commit, stored } = await startService(t)
  const client = createClient({ baseUrl: `${server.url}/`, token: `${token}\n` })

  const reported = await client.reportStatus({ ...commit, body: { state: 'success', context: 'ci/build' } })
  t.equal(reported.status, 201)
  if (reported.status === 201) {
    const status: Status = reported.body
    t.match(status, { sha: commit.sha, context: 'ci/build', state: 'success', description: null })
  }
  t.ok(reported.headers.get('x-request-id'))
  t.strictSame(await stored(), ['ci/build success'])

  const read = await client.listStatuses(commit)
  t.match(read, { status: 200, body: { state: 'success', statuses: [{ context: 'ci/build' }] } })
  const unchanged = await client.listStatuses(commit, { ifNoneMatch: read.headers.get('etag') ?? '' })
  t.match(unchanged, { status: 304, body: undefined })

  const missing = await client.listStatuses({ ...commit, repo: 'nothing' })
  t.equal(missing.status, 404)
  if (missing.status === 404) t.type(missing.body.error, 'string')
  t.equal((await client.listStatuses({ ...commit, sha: 'abc' })).status, 422)
  const large = await client.reportStatus({
    ...commit,
    body: { state: 'success', description: 'x'.repeat(1025) },
  })
  t.match(large, { status: 422, body: { error: /1025 characters/ } })
})

t.test('unwrap throws a CommitStatusError for every failure', async (t) => {
  const { proxy, token, commit } = await startService(t)
  const client = createClient({ baseUrl: proxy.url, token })
  const status: Status = unwrap(await client.reportStatus({ ...commit, body: { state: 'pending' } }))
  t.equal(status.context, 'default')
  t.equal(unwrap(await client.listStatuses(commit)).state, 'pending')

  const refused = await client.listStatuses({ ...commit, repo: 'nothing' })
  t.throws(() => unwrap(refused), { name: 'CommitStatusError', status: 404, retryAfter: null })
  proxy.plan({ status: 429, headers: { 'retry-after': '77' }, body: '{"error":"slow down"}' })
  const limited = await client.listStatuses(commit)
  const error = t.throws(() => unwrap(limited))
  t.ok(error instanceof CommitStatusError)
  t.match(error, { status: 429, message: 'slow down', retryAfter: 77 })
})

t.test('a token that was refused is not sent again', async (t) => {
  const { server, proxy, commit } = await startService(t)
  const client = createClient({ baseUrl: proxy.url, token: 'nonsense' })
  t.equal((await client.listStatuses(commit)).status, 401)
  const second = await client.reportStatus({ ...commit, body: { state: 'success' } })
  t.match(second, { status: 401, body: { error: /^not sent, since an earlier request was answered 401: / } })
  t.equal(proxy.passages.length, 1)

  const scopeless = createClient({
    baseUrl: proxy.url,
    token: await server.createToken('eve', { scopes: [] }),
  })
  t.equal((await scopeless.listStatuses(commit)).status, 403)
  t.equal((await scopeless.listStatuses(commit)).status, 403)
  t.equal(proxy.passages.length, 3, '403 may concern one request alone')

  const anonymous = createClient({ baseUrl: proxy.url, token: '' })
  t.equal((await anonymous.reportStatus({ ...commit, body: { state: 'success' } })).status, 401)
  t.equal((await anonymous.listStatuses(commit)).status, 200, 'without a token there is none to refuse')
  t.notOk(proxy.passages.at(-1)?.headers.authorization)
})

t.test('an answer that is not from the service has status 0 and a reason', async (t) => {
  const { proxy, token, commit } = await startService(t)
  const client = createClient({ baseUrl: proxy.url, token })
  const page = { headers: { 'content-type': 'text/html' }, body: '<h1>Hello</h1>' }

  proxy.plan({ status: 200, ...page })
  t.match(await client.listStatuses(commit), { status: 0, body: { error: /200 without the expected JSON/ } })
  proxy.plan({ status: 200, body: '{"status":"ok"}' })
  t.match(await client.listStatuses(commit), { status: 0, body: { error: /200 without the expected JSON/ } })
  proxy.plan({ status: 500 })
  t.match(await client.listStatuses(commit), { status: 0, body: { error: 'answered 500: out of order' } })
  proxy.plan({ status: 404, ...page })
  t.match(await client.listStatuses(commit), { status: 404, body: { error: 'answered 404: Not Found' } })
  proxy.plan({ status: 301, headers: { location: 'https://status.example.org/' } })
  t.match(await client.reportStatus({ ...commit, body: { state: 'success' } }), {
    status: 0,
    body: { error: /redirects to https:\/\/status\.example\.org\// },
  })
  proxy.plan({ status: 304 })
  t.match(await client.listStatuses(commit), { status: 0, body: { error: 'answered 304: Not Modified' } })
  proxy.plan({ status: 200, body: 'x'.repeat(65 * 2 ** 20) })
  t.match(await client.listStatuses(commit), { status: 0, body: { error: /larger than 67108864 bytes/ } })
  t.equal(proxy.passages.length, 7, 'none of these is worth another try')

  await proxy.close()
  const down = await createClient({ baseUrl: proxy.url, token, totalTimeout: 3_000 }).listStatuses(commit)
  t.match(down, { status: 0, body: { error: /ECONNREFUSED/ } })
})

t.test('a base URL or token that cannot be one is refused without being repeated', async (t) => {
  for (const baseUrl of [
    'https://u:secret@host',
    'ftp://secret',
    'https://h/?secret',
    'secret.org',
    '//secret',
  ]) {
    const error = t.throws(() => createClient({ baseUrl }))
    t.type(error, TypeError)
    t.notMatch(String(error), /secret/)
  }
  for (const baseUrl of ['HTTPS://status.example.org', '/'])
    t.doesNotThrow(() => createClient({ baseUrl }), baseUrl)
  t.throws(() => createClient({ baseUrl: '' }), { name: 'TypeError', message: /the base URL is empty/ })
  t.notMatch(String(t.throws(() => createClient({ baseUrl: '/', token: 'sec\nret' }))), /sec/)
})

t.test('a fetch of the caller is used, and a path is the own origin', async (t) => {
  const { server, commit } = await startService(t)
  const seen: string[] = []
  const client = createClient({
    baseUrl: server.url,
    fetch: (request) => {
      seen.push(request.url)
      return fetch(request)
    },
  })
  t.equal((await client.listStatuses(commit)).status, 200)
  t.strictSame(seen, [`${server.url}/api/v1/repos/acme/rocket/commits/${commit.sha}/statuses`])
})
