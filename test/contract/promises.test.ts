import { readFileSync } from 'node:fs'
import t from 'tap'
import { contractFile } from '../helpers/contract.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

/** The contract on one line. */
const prose = readFileSync(contractFile, 'utf8').replace(/\s+/g, ' ')

t.test('what the prose of the contract promises in these words is what the server does', async (t) => {
  const server = await startServer(t, { budget: { limit: 1, window: 300 } })
  const repository = await server.createRepository('acme/rocket', { commits: 20 })
  const hidden = await server.createRepository('acme/hidden', { private: true })
  const { commits } = repository
  const [replaced = '', clean = '', decided = '', odd = ''] = commits
  await createAccount(server, 'acme')
  const token = await server.createToken('acme')
  const stranger = await server.createToken('stranger')
  const elsewhere = await server.createToken('acme', { limits: { repositories: [hidden.id] } })
  await server.store.rules.set(repository, { branchPattern: 'main', required: ['lint'], bypass: [] })

  const report = (sha: string, context: string, state: string, name = 'acme/rocket') =>
    server.report(name, sha, { context, state }, token)
  const stateOf = async (index: number, states: readonly string[]) => {
    const sha = commits.at(index) ?? ''
    for (const [context, state] of states.entries()) await report(sha, `${context}`, state)
    return (await server.read('acme/rocket', sha)).json.state
  }
  const path = `/api/v1/repos/acme/rocket/commits/${decided}/verdict`
  const decide = async (query: string) => (await server.call('GET', `${path}${query}`)).json
  const statusOf = async (method: string, url: string, headers: Record<string, string> = {}) =>
    (await server.call(method, url, { headers })).status
  const listOf = (sha: string) => `/api/v1/repos/acme/rocket/commits/${sha}/statuses`

  const first = await report(replaced, 'ci', 'pending')
  const second = await report(replaced, 'ci', 'failure')
  const third = await report(replaced, 'ci', 'pending')
  await report(decided, 'ci/a/b', 'success')
  await report(decided, 'deploy', 'failure')
  const browser = openPageClient(server.url)
  await browser.signIn('acme')
  const tokens = await browser.get('/settings/tokens')
  const session = browser.cookieHeader()
  const etag = (await server.read('acme/rocket', replaced)).headers.get('etag') ?? ''
  const same = async (one: string, other: string, credential?: string) => {
    const answers = await Promise.all(
      [one, other].map((name) => server.read(name, hidden.commits[0] ?? '', credential)),
    )
    const [shown, expected] = answers.map(({ status, body }) => `${status} ${body}`)
    return shown === expected ? answers[0]?.status : `${shown} is not ${expected}`
  }

  const rows: readonly [words: string, answer: unknown, expected: unknown][] = [
    [
      '`failure` if any status is `failure` or `error`; otherwise `pending` if any is `pending`; otherwise `success`; `null` when there are no statuses.',
      await Promise.all([
        stateOf(-1, ['success', 'failure', 'pending']),
        stateOf(-2, ['pending', 'error', 'success']),
        stateOf(-3, ['success', 'pending']),
        stateOf(-4, ['success', 'success']),
        stateOf(-5, []),
      ]),
      ['failure', 'failure', 'pending', 'success', null],
    ],
    [
      'a second report for the same context replaces the first, keeps its `id` and `created_at`, and gets `201` as well. Any state may follow any other.',
      [second.status, second.json.id, second.json.created_at, second.json.state, third.json.state],
      [201, first.json.id, first.json.created_at, 'failure', 'pending'],
    ],
    [
      'Full commit id, 40 hex digits, or 64 in a SHA-256 repository, in upper or lower case.',
      (await server.read('acme/rocket', replaced.toUpperCase())).body,
      (await server.read('acme/rocket', replaced)).body,
    ],
    [
      'Full id of the commit, in lower case.',
      (await report(odd.toUpperCase(), 'ci', 'success')).json.sha,
      odd.toLowerCase(),
    ],
    [
      'The API never reads session cookies.',
      [
        (await browser.get('/acme/hidden')).status,
        await statusOf('GET', `/api/v1/repos/acme/hidden/commits/${hidden.commits[0]}/statuses`, {
          cookie: session,
        }),
      ],
      [200, 401],
    ],
    [
      'Send a personal access token, created under `/settings/tokens`, in the `Authorization` header, as `Bearer <token>` or as `token <token>`.',
      [
        tokens.status,
        /Create token/.test(tokens.body),
        await statusOf('GET', listOf(clean), { authorization: `Bearer ${token}` }),
        await statusOf('GET', listOf(clean), { authorization: `token ${token}` }),
      ],
      [200, true, 200, 200],
    ],
    [
      '`401` without a token, `404` with one. Private and missing repositories get the same response.',
      [await same('acme/hidden', 'acme/none'), await same('acme/hidden', 'acme/none', stranger)],
      [401, 404],
    ],
    [
      'An invalid name gets the same response as a missing repository.',
      await same('acme/none.git', 'acme/none'),
      401,
    ],
    [
      'matched without regard to ASCII case.',
      (await server.read('ACME/Rocket', replaced)).body,
      (await server.read('acme/rocket', replaced)).body,
    ],
    [
      "A repository outside a limited token's list is treated as one to which the token's user has no access: a public one stays readable.",
      [
        (await server.read('acme/rocket', clean, elsewhere)).status,
        (await server.report('acme/rocket', clean, { state: 'success' }, elsewhere)).status,
      ],
      [200, 403],
    ],
    [
      'Unknown fields are ignored, unknown query parameters are refused: a misspelled `require` would require nothing. An operation without query parameters ignores the query.',
      [
        (await server.report('acme/rocket', odd, { state: 'success', unknown: 1 }, token)).status,
        (await server.call('GET', `${path}?requires=lint`)).status,
        await statusOf('GET', `${listOf(clean)}?unknown=1`),
      ],
      [201, 422, 200],
    ],
    [
      'A comma is part of the pattern.',
      (await decide('?require=deploy,lint')).required,
      [{ pattern: 'deploy,lint', state: null, contexts: [] }],
    ],
    [
      '`*` stands for any characters, `/` included; a pattern matches the whole context.',
      [(await decide('?require=ci/*')).required, (await decide('?require=ci')).required],
      [
        [{ pattern: 'ci/*', state: 'success', contexts: ['ci/a/b'] }],
        [{ pattern: 'ci', state: null, contexts: [] }],
      ],
    ],
    [
      '1. `failure`: a required context is `failure` or `error`. 2. `pending`: a required context is `pending`, or a pattern matches no reported context. 3. `success`: otherwise. Without any pattern all contexts count, and a commit without statuses is `pending`.',
      [
        (await decide('?require=deploy&require=none')).verdict,
        (await decide('?require=ci/*&require=none')).verdict,
        (await decide('?require=ci/*')).verdict,
        (await decide('')).verdict,
        (await server.call('GET', path.replace(decided, clean))).json.verdict,
      ],
      ['failure', 'pending', 'success', 'failure', 'pending'],
    ],
    [
      'The combined state of all contexts of the commit, required or not;',
      (await decide('?require=ci/*')).state,
      'failure',
    ],
    [
      'The patterns of all rules that match it are required too, with or without `refs/heads/`. A branch without a rule adds nothing.',
      (await Promise.all(['main', 'refs/heads/main', 'other'].map((name) => decide(`?branch=${name}`)))).map(
        ({ required }) => required?.map(({ pattern }) => pattern),
      ),
      [['lint'], ['lint'], []],
    ],
    [
      'The required patterns, each once: those of `require` as sent, then those of rules.',
      (await decide('?branch=main&require=z&require=a&require=z')).required?.map(({ pattern }) => pattern),
      ['z', 'a', 'lint'],
    ],
    [
      'If one of them is current, the response is `304`.',
      [
        await statusOf('GET', listOf(replaced), { 'if-none-match': `"other", ${etag}` }),
        await statusOf('GET', listOf(replaced), { 'if-none-match': '*' }),
        await statusOf('GET', listOf(replaced), { 'if-none-match': '"other"' }),
      ],
      [304, 304, 200],
    ],
    // From here on, the address is blocked.
    [
      'gets `429` with `Retry-After` for every request that carries a credential. Anonymous requests are never blocked.',
      [
        (await server.read('acme/rocket', clean, 'wrong')).status,
        (await server.read('acme/rocket', clean, token)).status,
        (await server.read('acme/rocket', clean)).status,
      ],
      [401, 429, 200],
    ],
  ]
  for (const [words, answer, expected] of rows) {
    t.ok(prose.includes(words), words)
    t.strictSame(answer, expected, words)
  }
})
