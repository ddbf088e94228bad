import { once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { startServer } from '../helpers/server.ts'

/**
 * Paths of repositories that do not exist, also some that are no names. The contract's checks send
 * other ids and bodies.
 */
const MISSING = [
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
const BODY = JSON.stringify({ state: 'success', context: 'ci/matrix' })

t.test('private and missing look the same, whatever the missing one is called', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository('acme/private', { private: true })
  const [sha = ''] = commits
  const callers = {
    anonymous: [],
    stranger: [await server.createToken('stranger')],
    unknown: [createToken()],
    'without scope': [await server.createToken('acme', { scopes: [] })],
  }
  for (const [caller, tokens] of Object.entries(callers)) {
    const authorization = tokens.flatMap((token) => ['Authorization', `Bearer ${token}`])
    for (const [method, path, body] of [
      ['POST', `statuses/${sha}`, BODY],
      ['GET', `commits/${sha}/statuses`, undefined],
    ] as const) {
      const ask = (name: string) =>
        rawAnswer(server.url, method, `/api/v1/repos/${name}/${path}`, authorization, body)
      const expected = await ask('acme/private')
      t.notMatch(expected, /private/i, 'does not name the repository')
      for (const name of MISSING) t.equal(await ask(name), expected, `${caller}: ${method} ${name}`)
    }
  }
})

/**
 * Sends `path` unchanged. Returns status, headers in the order sent, and body, without the parts
 * that may differ.
 */
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
