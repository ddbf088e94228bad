import { rename } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { type CallOptions, startServer } from '../helpers/server.ts'

const report = { state: 'success' }

/** Starts a server with a public and a private repository that `acme` owns and `reader` may read. */
async function setUp(t: Test) {
  const server = await startServer(t, { budget: { limit: 1_000, window: 300 } })
  const { commits } = await server.createRepository('acme/public')
  const [sha = ''] = commits
  const secret = await server.createRepository('acme/private', { private: true })
  const [privateSha = ''] = secret.commits
  await server.store.collaborators.set('acme', 'private', await server.createUser('reader'), 'read')
  const tokens = {
    owner: await server.createToken('acme'),
    reader: await server.createToken('reader'),
    stranger: await server.createToken('stranger'),
    expired: await server.createToken('acme', { expiresAt: Date.now() - 1 }),
    'no scope': await server.createToken('acme', { scopes: [] }),
    unknown: createToken(),
  }
  const write = (name: string, id: string, options: CallOptions = {}) =>
    server.call('POST', `/api/v1/repos/acme/${name}/statuses/${id}`, { body: report, ...options })
  const read = (name: string, id: string, options: CallOptions = {}) =>
    server.call('GET', `/api/v1/repos/acme/${name}/commits/${id}/statuses`, options)
  return { server, sha, privateSha, path: secret.path, tokens, write, read }
}

const shared = await setUp(t)

t.test('each caller gets the status of the first check that fails', async (t) => {
  const { sha, privateSha, tokens, write, read } = shared
  const rows = [
    ['No token | write', 401, await write('public', sha)],
    ['No token | read of public repo', 200, await read('public', sha)],
    ['No token | read of a repo it cannot read (private)', 401, await read('private', privateSha)],
    ['No token | read of a repo it cannot read (missing)', 401, await read('missing', sha)],
    ['Unknown token | any (write)', 401, await write('public', sha, { token: tokens.unknown })],
    ['Unknown token | any (read)', 401, await read('public', sha, { token: tokens.unknown })],
    ['Expired token | any (write)', 401, await write('public', sha, { token: tokens.expired })],
    ['Expired token | any (read)', 401, await read('public', sha, { token: tokens.expired })],
    [
      'Token without `repo` scope | any (write)',
      403,
      await write('public', sha, { token: tokens['no scope'] }),
    ],
    [
      'Token without `repo` scope | any (read)',
      403,
      await read('public', sha, { token: tokens['no scope'] }),
    ],
    ['Read-only access | write', 403, await write('private', privateSha, { token: tokens.reader })],
    [
      'No access to the repo | any (write)',
      404,
      await write('private', privateSha, { token: tokens.stranger }),
    ],
    [
      'No access to the repo | any (read)',
      404,
      await read('private', privateSha, { token: tokens.stranger }),
    ],
  ] as const
  for (const [row, status, answer] of rows) t.equal(answer.status, status, row)
})

t.test('the API never reads session cookies', async (t) => {
  const { privateSha, read } = shared
  const headers = { cookie: `session=${'x'.repeat(43)}; sessionId=1; token=1` }
  t.equal((await read('private', privateSha, { headers })).status, 401)
})

t.test('each invalid request gets the status of its error', async (t) => {
  const { server, sha, tokens, write, read } = shared
  const token = tokens.owner
  const json = 'application/json'
  const filled = (bytes: number) => `{"state":"success","fill":"${'x'.repeat(bytes - 29)}"}`
  t.equal(Buffer.byteLength(filled(16_384)), 16_384)

  const body = (body: CallOptions['body'], type: string = json) =>
    write('public', sha, { token, body, headers: { 'content-type': type } })
  const rows = [
    ['400: cut off', 400, await body('{"state":')],
    ['400: not JSON', 400, await body('state=success')],
    ['400: a trailing comma', 400, await body('{"state":"success",}')],
    ['400: two values', 400, await body('{"state":"success"}{}')],
    ['400: empty', 400, await body('')],
    ['400: whitespace only', 400, await body(' \n')],
    ['400: not UTF-8', 400, await body(Buffer.from('{"state":"success","context":"\xff"}', 'latin1'))],
    ['400: a byte order mark', 400, await body('\ufeff{"state":"success"}')],
    ['401: no token', 401, await write('public', sha)],
    ['403: the scope', 403, await write('public', sha, { token: tokens['no scope'] })],
    ['403: read-only', 403, await write('public', sha, { token: tokens.reader })],
    ['404: the repository', 404, await write('missing', sha, { token })],
    ['404: the commit, report', 404, await write('public', 'f'.repeat(40), { token })],
    ['404: the commit, read', 404, await read('public', 'f'.repeat(40))],
    ['413: 16,385 bytes', 413, await body(filled(16_385))],
    ['16,384 bytes are allowed', 201, await body(filled(16_384))],
    ['415: no content type', 415, await body('{}', '')],
    ['415: text', 415, await body('{}', 'text/plain')],
    ['415: a form', 415, await body('{}', 'application/x-www-form-urlencoded')],
    ['415: another JSON type', 415, await body('{}', 'application/merge-patch+json')],
    ['415: another charset', 415, await body('{}', `${json}; charset=iso-8859-1`)],
    [
      'other parameters are ignored',
      201,
      await body(report, `Application/JSON ; profile="a;b"; CHARSET="UTF-8"`),
    ],
    [
      '415: a content encoding',
      415,
      await write('public', sha, { token, body: report, headers: { 'content-encoding': 'gzip' } }),
    ],
    [
      'the encoding identity',
      201,
      await write('public', sha, { token, body: report, headers: { 'content-encoding': 'Identity' } }),
    ],
    ['422: a field', 422, await body({ state: 'done' })],
    ['422: the commit id, report', 422, await write('public', sha.slice(0, 8), { token })],
    ['422: the commit id, read', 422, await read('public', sha.slice(0, 8))],
  ] as const
  for (const [row, status, answer] of rows) {
    t.equal(answer.status, status, row)
    // The helper checks every answer against the contract's `Error`.
    if (status >= 400) t.same(Object.keys(answer.json), ['error'], row)
  }
  t.match((await body(filled(16_385))).json.error, /16384 bytes/)
  t.match((await body('')).json.error, /empty/)
  t.match((await body('\ufeff{}')).json.error, /byte order mark/)
  t.equal((await server.call('GET', '/api/v1/nothing', { token })).status, 404, 'an unknown path')
})

t.test('the first broken rule decides', async (t) => {
  const { tokens, write } = shared
  const tooLarge = `{"state":"${'x'.repeat(20_000)}"}`
  const textPlain = { 'content-type': 'text/plain' }
  const rows = [
    // Each request breaks the named rule and every later one.
    ['401 before 403', 401, { token: tokens.unknown, body: tooLarge, headers: textPlain }, 'missing', 'x'],
    ['403 for the scope before 404', 403, { token: tokens['no scope'], body: tooLarge }, 'missing', 'x'],
    [
      '404 before the body',
      404,
      { token: tokens.stranger, body: tooLarge, headers: textPlain },
      'private',
      'x',
    ],
    ['403 for access before the body', 403, { token: tokens.reader, body: tooLarge }, 'private', 'x'],
    ['401 before the body', 401, { body: tooLarge, headers: textPlain }, 'public', 'x'],
    ['413 before 415', 413, { token: tokens.owner, body: tooLarge, headers: textPlain }, 'public', 'x'],
    ['415 before 400', 415, { token: tokens.owner, body: '{', headers: textPlain }, 'public', 'x'],
    ['400 before 422', 400, { token: tokens.owner, body: '{' }, 'public', 'x'],
    ['422 for the body before 404', 422, { token: tokens.owner, body: {} }, 'public', 'f'.repeat(40)],
    ['422 for the id before 404', 422, { token: tokens.owner, body: report }, 'public', 'f'.repeat(64)],
    ['404 for the commit last', 404, { token: tokens.owner, body: report }, 'public', 'f'.repeat(40)],
  ] as const
  for (const [row, status, options, name, id] of rows) {
    t.equal((await write(name, id, options)).status, status, row)
  }
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
