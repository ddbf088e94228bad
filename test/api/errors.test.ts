import { rename } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { type CallOptions, startServer } from '../helpers/server.ts'

/**
 * What the contract's checks do not send: they provoke each status code, and each pair of broken
 * rules.
 */
const report = { state: 'success' }

/**
 * Starts a server with a public and a private repository that `acme` owns and `reader` may read.
 */
async function setUp(t: Test) {
  const server = await startServer(t, { budget: { limit: 1_000, window: 300 } })
  const { commits } = await server.createRepository('acme/public')
  const [sha = ''] = commits
  const secret = await server.createRepository('acme/private', { private: true })
  const [privateSha = ''] = secret.commits
  await asAdministrator(server.store).collaborators.set(
    { owner: 'acme', name: 'private' },
    await server.createUser('reader'),
    'read',
  )
  const tokens = {
    owner: await server.createToken('acme'),
    reader: await server.createToken('reader'),
    stranger: await server.createToken('stranger'),
  }
  const write = (name: string, id: string, options: CallOptions = {}) =>
    server.call('POST', `/api/v1/repos/acme/${name}/statuses/${id}`, { body: report, ...options })
  const read = (name: string, id: string, options: CallOptions = {}) =>
    server.call('GET', `/api/v1/repos/acme/${name}/commits/${id}/statuses`, options)
  return { server, sha, privateSha, path: secret.path, tokens, write, read }
}

const shared = await setUp(t)

t.test('the API never reads session cookies', async (t) => {
  const { privateSha, read } = shared
  const headers = { cookie: `session=${'x'.repeat(43)}; sessionId=1; token=1` }
  t.equal((await read('private', privateSha, { headers })).status, 401)
})

t.test('a body that is not accepted gets the status and the message of its error', async (t) => {
  const { server, sha, tokens, write } = shared
  const token = tokens.owner
  const json = 'application/json'
  const filled = `{"state":"success","fill":"${'x'.repeat(16_356)}"}`
  t.equal(Buffer.byteLength(filled), 16_385)

  const body = (body: CallOptions['body'], type: string = json) =>
    write('public', sha, { token, body, headers: { 'content-type': type } })
  const encoded = (encoding: string) =>
    write('public', sha, { token, body: report, headers: { 'content-encoding': encoding } })
  const rows = [
    ['two values', 400, await body('{"state":"success"}{}'), /JSON/],
    ['empty', 400, await body(''), /empty/],
    ['whitespace only', 400, await body(' \n'), /not valid JSON/],
    ['a byte order mark', 400, await body('\ufeff{}'), /byte order mark/],
    ['too large', 413, await body(filled), /16384 bytes/],
    ['no content type', 415, await body('{}', ''), /application\/json/],
    ['a form', 415, await body('{}', 'application/x-www-form-urlencoded'), /application\/json/],
    ['another JSON type', 415, await body('{}', 'application/merge-patch+json'), /application\/json/],
  ] as const
  for (const [row, status, answer, message] of rows) {
    t.equal(answer.status, status, row)
    // The helper checks every answer against the contract's `Error`.
    t.match(answer.json.error, message, row)
  }
  const parameters = `Application/JSON ; profile="a;b"; CHARSET="UTF-8"`
  t.equal((await body(report, parameters)).status, 201, 'other parameters are ignored')
  t.equal((await encoded('Identity')).status, 201, 'the encoding identity')
  t.equal((await server.call('GET', '/api/v1/nothing', { token })).status, 404, 'an unknown path')
})

t.test('malformed credentials (step 3)', async (t) => {
  const { sha, tokens, read } = shared
  const { owner } = tokens
  const headers = [
    `Basic ${Buffer.from(`acme:${owner}`).toString('base64')}`,
    'Digest username="acme"',
    owner,
    `Bearer ${owner} ${owner}`,
    `Bearer\t${owner}`,
    `Bearer ${owner},`,
    `Bearer "${owner}"`,
    `Bearer ${owner.slice(0, -1)}`,
    `Bearer ${owner}x`,
    `Bearer ${owner.toUpperCase()}`,
    `token=${owner}`,
    'Bearer',
    'token ',
  ]
  for (const authorization of headers) {
    const answer = await read('public', sha, { headers: { authorization } })
    t.equal(answer.status, 401, authorization.replaceAll(owner, 'TOKEN'))
    t.notMatch(answer.body, owner.slice(4), 'does not repeat the token')
  }
  t.equal(
    (await read('public', sha, { headers: { authorization: '' } })).status,
    200,
    'an empty header is no credential',
  )
})

t.test('repository files that cannot be opened', async (t) => {
  const { privateSha, path, tokens, write, read } = shared
  await rename(path, `${path}.away`)
  t.equal(
    (await read('private', privateSha, { token: tokens.reader })).status,
    503,
    '503 for callers with read access',
  )
  t.equal((await write('private', privateSha, { token: tokens.owner })).status, 503)
  t.equal((await read('private', privateSha)).status, 401, 'and for nobody else')
  t.equal((await read('private', privateSha, { token: tokens.stranger })).status, 404)
  await rename(`${path}.away`, path)
  t.equal(
    (await read('private', privateSha, { token: tokens.reader })).status,
    200,
    'until the files are back',
  )
})
