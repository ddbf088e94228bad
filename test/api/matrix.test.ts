import { once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { startServer } from '../helpers/server.ts'

/**
 * Steps 3 to 6 of "Order of checks" in openapi.yaml as a table: the status per caller for a public, a private and a missing
 * repository.
 */
const EXPECTED = {
  anonymous: { report: [401, 401, 401], read: [200, 401, 401] },
  unknown: { report: [401, 401, 401], read: [401, 401, 401] },
  expired: { report: [401, 401, 401], read: [401, 401, 401] },
  revoked: { report: [401, 401, 401], read: [401, 401, 401] },
  'without scope': { report: [403, 403, 403], read: [403, 403, 403] },
  stranger: { report: [403, 404, 404], read: [200, 404, 404] },
  reader: { report: [403, 403, 404], read: [200, 200, 404] },
  writer: { report: [201, 201, 404], read: [200, 200, 404] },
  owner: { report: [201, 201, 404], read: [200, 200, 404] },
} as const

const REPOSITORIES = ['public', 'private', 'missing'] as const
const OPERATIONS = ['report', 'read'] as const
const FORMS = {
  Bearer: (token: string) => `Bearer ${token}`,
  token: (token: string) => `token ${token}`,
  'odd case': (token: string) => `bEARER ${token}`,
  'odd case of token': (token: string) => `ToKeN ${token}`,
  'several spaces': (token: string) => `Bearer    ${token}`,
  'several spaces after token': (token: string) => `token   ${token}`,
}
const BODY = JSON.stringify({ state: 'success', context: 'ci/matrix' })

/** Starts a server with a public and a private repository of `acme`, and a token for each caller. */
async function setUp(t: Test) {
  const server = await startServer(t, { budget: { limit: 1_000_000, window: 300 } })
  const { path, commits } = await server.createRepository('acme/public')
  const [sha = ''] = commits
  await server.store.repositories.create({
    owner: 'acme',
    name: 'private',
    visibility: 'private',
    objectFormat: 'sha1',
    path,
  })
  for (const [user, permission] of [
    ['reader', 'read'],
    ['writer', 'write'],
  ] as const) {
    const userId = await server.createUser(user)
    for (const name of ['public', 'private']) {
      await server.store.collaborators.set('acme', name, userId, permission)
    }
  }
  const revoked = await server.createToken('acme')
  for (const token of await server.store.tokens.list(await server.createUser('acme'))) {
    await server.store.tokens.revoke(token.id)
  }
  const tokens: Record<keyof typeof EXPECTED, string | null> = {
    anonymous: null,
    unknown: createToken(),
    // Tokens of the owner, so that only the token can be wrong.
    expired: await server.createToken('acme', { expiresAt: Date.now() - 1 }),
    revoked,
    'without scope': await server.createToken('acme', { scopes: [] }),
    stranger: await server.createToken('stranger'),
    reader: await server.createToken('reader'),
    writer: await server.createToken('writer'),
    owner: await server.createToken('acme'),
  }
  return { server, sha, tokens: new Map<string, string | null>(Object.entries(tokens)) }
}

function target(operation: (typeof OPERATIONS)[number], fullName: string, sha: string) {
  return operation === 'report'
    ? { method: 'POST', path: `/api/v1/repos/${fullName}/statuses/${sha}` }
    : { method: 'GET', path: `/api/v1/repos/${fullName}/commits/${sha}/statuses` }
}

t.test('caller × repository × operation × token form', async (t) => {
  const { server, sha, tokens } = await setUp(t)
  for (const [caller, expected] of Object.entries(EXPECTED)) {
    const token = tokens.get(caller) ?? null
    for (const operation of OPERATIONS) {
      for (const [column, repository] of REPOSITORIES.entries()) {
        const { method, path } = target(operation, `acme/${repository}`, sha)
        const forms = token === null ? [['no token', null] as const] : Object.entries(FORMS)
        for (const [form, write] of forms) {
          const headers = token === null || write === null ? {} : { authorization: write(token) }
          const body = operation === 'report' ? BODY : undefined
          const answer = await server.call(method, path, { headers, body })
          t.equal(
            answer.status,
            expected[operation][column],
            `${caller}: ${operation} of ${repository}, ${form}`,
          )
        }
      }
    }
  }
})

t.test('private and missing look the same', async (t) => {
  const { server, sha, tokens } = await setUp(t)
  const missing = [
    'acme/missing',
    'nobody/missing',
    'acme/..',
    '%2e%2e/private',
    'acme/private.git',
    'acme/private%2F',
    'acme/private%00',
    `acme/${'x'.repeat(101)}`,
    'login/private',
  ]
  const shas = [sha, sha.slice(0, 7), 'f'.repeat(40), 'f'.repeat(64)]
  const bodies = [BODY, '{', '"x"', '{"state":1}', `{"state":"success","description":"${'x'.repeat(2000)}"}`]
  for (const caller of ['anonymous', 'stranger', 'unknown', 'without scope'] as const) {
    const token = tokens.get(caller) ?? null
    const authorization = token === null ? [] : ['Authorization', `Bearer ${token}`]
    for (const operation of OPERATIONS) {
      for (const id of shas) {
        for (const body of operation === 'report' ? bodies : [undefined]) {
          const ask = (fullName: string) => {
            const { method, path } = target(operation, fullName, id)
            return rawAnswer(server.url, method, path, authorization, body)
          }
          const expected = await ask('acme/private')
          t.notMatch(expected, /private/i, 'does not name the repository')
          // Each kind of missing repository once per caller; the plain one with every id and body.
          const names = id === sha && body !== '{' && body !== '"x"' ? missing : missing.slice(0, 1)
          for (const fullName of names) {
            t.equal(await ask(fullName), expected, `${caller}: ${operation} ${fullName} ${id} ${body ?? ''}`)
          }
        }
      }
    }
  }
})

/** Sends `path` unchanged. Returns status, headers in the order sent, and body, without the parts that may differ. */
async function rawAnswer(
  url: string,
  method: string,
  path: string,
  headers: string[],
  body: string | undefined,
): Promise<string> {
  const { hostname, port, host } = new URL(url)
  const sending = request({
    hostname,
    port,
    method,
    path,
    headers: [
      'Host',
      host,
      ...headers,
      ...(body === undefined
        ? []
        : ['Content-Type', 'application/json', 'Content-Length', `${Buffer.byteLength(body)}`]),
    ],
  })
  sending.end(body)
  const [response] = await once(sending, 'response')
  const lines: string[] = []
  for (let index = 0; index < response.rawHeaders.length; index += 2) {
    const [name, value] = response.rawHeaders.slice(index, index + 2)
    if (!/^(date|x-request-id)$/i.test(name)) lines.push(`${name}: ${value}`)
  }
  return `${response.statusCode} ${response.statusMessage}\n${lines.join('\n')}\n\n${await text(response)}`
}
