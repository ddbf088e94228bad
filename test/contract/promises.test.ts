import { rename } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { schemas } from '../../generated/schemas.ts'
import { isName } from '../../src/domain/names.ts'
import { statusOf as errorStatus } from '../../src/errors.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { contractFile } from '../helpers/contract.ts'
import { sqlite } from '../helpers/databases.ts'
import { git, gitWith, importCommits, importGraph } from '../helpers/git.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { passTime } from '../helpers/pass-time.ts'
import { addPush } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { isObject, type Json } from './json.ts'
import { readDocument } from './spec.ts'
import { exchange } from './wire.ts'

/**
 * Words of the contract, in one place or in several, what the server answers, and what that has to
 * be.
 */
type Proof = readonly [words: string | string[], answer: unknown, expected: unknown]

const nothing = Object.fromEntries(schemas.State.enum.map((state) => [state, 0]))

/**
 * Texts of the contract, each on one line, without code, and after the name of what it is about.
 */
const texts = [...new Set(textsOf(await readDocument(contractFile)))]
/**
 * Words with one of which a sentence may promise something. One without says what something is:
 * `Name of the check.`
 */
const PROMISE =
  /`|\d|\b(?:must|may|can|cannot|never|always|only|not|no|most|least|every|each|all|any|none|if|when|while|until|unless|otherwise|is|are|was|were|keeps?|returns?|ordered|safe|same|exactly|before|after|needs?|limited|revoked|missing|too|match(?:es|ed)|names|computed|case)\b/i
/**
 * What is left of those that may: introductions, and rules that other tests compare, such as the
 * order of checks.
 */
const EXPLANATIONS: readonly string[] = [
  'People and tools read all statuses of a commit together with one **combined state**.',
  'Read all results of the commit;',
  'Ask whether the commit has passed the checks that it needs, including those that have not reported yet:',
  'Ask which commit of a branch was the last one to pass its required checks, for example to deploy it:',
  'The first rule that it breaks decides the response, so that no response reveals more than the caller may know.',
  '1. A malformed request or URL: `400`.',
  'An unknown path: `404`.',
  'A wrong method on a known path: `405`.',
  '2. An address with too many failed authentication attempts',
  '3. A token that is unknown, malformed, expired or revoked: `401`.',
  '4. A token without the `repo` scope: `403`.',
  '5. A repository that is missing, or that the caller cannot read:',
  '6. A report without a token: `401`; with read access only, or with a token that is limited to other repositories: `403`.',
  '7. The body: more than 16,384 bytes `413`; not `application/json` in UTF-8 without a content encoding `415`; not JSON `400`.',
  '8. An invalid field, parameter or commit id: `422`,',
  'Then a context that matches no pattern of a token that is limited to contexts: `403`,',
  'Then one that the repository reserves for other users, unless the report is `pending` without `run`: `403`, with a message that names it and who may report it.',
  '9. A branch or commit that is not in the repository: `404`; for the id of an annotated tag, the message names its commit.',
  'A new context on a commit that already has as many contexts as this server allows (1,000 unless configured otherwise): `422`.',
  'A branch without required checks, whose last passed commit is asked for: `422`.',
  'A report of a superseded run, one that arrived too late, or a claim that the stored status excludes: `409`.',
  'A report that would be stored more than a second after step 6 passes steps 3 to 6, and the reserved contexts of step 8, again before it is stored.',
  'One that is not stored within a second, four times in a row, gets `503`.',
  'Some can occur for any request:',
  'Responses may gain fields: ignore those that you do not know.',
  'The clients of openapi-generator do so with its option `disallowAdditionalPropertiesIfNotPresent=false`.',
  'Reports can arrive late, twice or in another order than they were sent.',
  'Claims last by the clock of the database; a stored time that is more than 5 seconds ahead of it counts as passed.',
  'What remains: the server knows only the run whose report is stored, so a report that is delivered late can replace that of another run if these runs began within 5 seconds of each other, or if its delivery took longer than the time between them, which makes its run look younger than it is.',
  'A run that began 4 minutes ago has failed',
  'The shortest report, for the context `default`',
  'All statuses of the same commit.',
  'Whether the same commit has passed its required checks.',
  'The combined state and every status of the commit.',
  'One check has passed, another is running',
  'No status yet',
  'Returns one verdict on the commit.',
  'All patterns together may match at most 10,000 contexts, each counted once for every pattern.',
  'So name at least one context exactly, such as the check that reports last.',
  'Deprecated since 2026-11-22; the next major version may remove it, not before 2027-11-22.',
  'The verdict, and the state of each required pattern.',
  'A required check has not reported',
  'All required checks have passed',
  'No required patterns and no statuses',
  'A deployment can take it without asking again.',
  'A commit of a merged branch may have passed without what the branch has had since.',
  '5. git has 3 seconds each time that it reads a history, which most requests do not need.',
  'Far down a long one, `after` may take more: the response is `503`, what was read is kept, and the same request goes on from there.',
  'Where the branch has merged hundreds of thousands of commits at once, it stays `503` until the operator of the server has had git write a commit graph.',
  'The commit, or null if none of those looked at has passed, or `unless` passes over all that have.',
  'The newest commit has not passed, the one before has',
  'No commit has passed',
  'A branch that is there during all requests is on exactly one page, whatever is pushed meanwhile.',
  'With `verdict`, a request looks at 300 branches at most, so a page may be short or empty and still have a next one: go on while there is one.',
  'A personal access token: `Authorization:',
  'Bearer <token>`.',
  'Scopes: `repo`.',
  'The same token in its other form, `Authorization: token <token>`.',
  'Enter the word `token`, a space and the token.',
  'The `ETag` of an earlier response, a list of them, or `*`.',
  'Name of an owner, a user or a repository: 1 to 100 ASCII letters, digits, `-`, `_`, `.`;',
  'All statuses of one commit and the state computed from them.',
  'Whether the repository has more branches than the server lists, which are the first 20,000.',
  'Every error, of every operation.',
  'What is wrong and what to do, for people.',
  'Send it back as `If-None-Match`.',
  'No token',
  'Unknown, expired or revoked token',
  'Read-only access',
  'A token that is limited to other repositories',
  'A token that is limited to other contexts',
  'Missing or invisible repository',
  'Missing commit',
  'Missing branch',
  'A commit that is no longer on the branch',
  'Do not repeat it.',
  'A `pending` that arrived after the result of its run',
  'A claim, while another run has the check',
  'A claim that cannot answer a request for another run',
  'A field that is too long',
  'Repeat the request after `Retry-After`; that is always safe.',
]
/** Words that the tests below have compared with the server. */
const proved: string[] = []

t.test('what the prose of the contract promises in these words is what the server does', async (t) => {
  const server = await startServer(t, { budget: { limit: 1, window: 300 } })
  const repository = await server.createRepository('acme/rocket', { commits: 20 })
  const hidden = await server.createRepository('acme/hidden', { private: true })
  const { commits } = repository
  const [replaced = '', clean = '', decided = '', odd = '', late = ''] = commits
  await createAccount(server, 'acme')
  const token = await server.createToken('acme')
  const stranger = await server.createToken('stranger')
  const elsewhere = await server.createToken('acme', { limits: { repositories: [hidden.id] } })
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: 'main',
    required: ['lint'],
    bypass: [],
  })

  for (const [refPattern, context] of [
    ['*1', 'other'],
    ['refs/tags/v*', 'release'],
  ] as const)
    await asAdministrator(server.store).rules.set(repository, {
      refPattern,
      required: [context],
      bypass: [],
    })
  git(repository.path, '-c', 'user.name=x', '-c', 'user.email=x', 'tag', '--message=x', 'v1', decided)
  const tag = git(repository.path, 'rev-parse', 'v1')

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

  /** Reports a new context: runs, seconds since they began, and states. Returns the answers. */
  const sequence = async (...reports: [run: string | null, seconds: number, state: string][]) => {
    const context = `runs ${++sequences}`
    const answers: string[] = []
    for (const [run, seconds, state] of reports) {
      const more = run === null ? {} : { run, elapsed: seconds * 1000 }
      const { status, json } = await server.report('acme/rocket', late, { context, state, ...more }, token)
      answers.push(
        `${status} ${Object.keys(json).filter((name) => name === 'error' || name === 'run')}`.trim(),
      )
    }
    const { json } = await server.read('acme/rocket', late)
    return [...answers, json.statuses?.find((status) => status.context === context)?.state]
  }
  let sequences = 0

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

  prove(t, [
    [
      'CommitStatuses.state: `failure` if any status is `failure` or `error`; otherwise `pending` if any is `pending`; otherwise `success`; `null` when there are no statuses.',
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
      'A commit has at most one status per `context`: a second report for the same context replaces the first, keeps its `id` and `created_at`, and gets `201` as well. Any state may follow any other.',
      [second.status, second.json.id, second.json.created_at, second.json.state, third.json.state],
      [201, first.json.id, first.json.created_at, 'failure', 'pending'],
    ],
    [
      [
        "A report with `run` says which run of the check it belongs to, and its `elapsed` when that run began: the server's clock minus `elapsed`. Such a report gets `409` and changes nothing if the stored status was reported - by the same run and is a result, while this report is `pending`: it arrived too late; - by another run that began more than 5 seconds after this one: this run is superseded. In all other cases it replaces the stored status.",
        'Conflict: The report changed nothing: a newer run has reported the context, the report is a `pending` of a run whose result is stored, or its `claim` is excluded by what is stored.',
        'StatusReport.run: Tells the runs of the check apart: any text that the reports of one run have in common, and those of others do not. It is not part of the status.',
      ],
      await Promise.all([
        sequence(['a', 9, 'failure'], ['a', 9, 'pending'], ['a', 9, 'success']),
        sequence(['a', 9, 'failure'], ['b', 15, 'success'], ['b', 15, 'pending']),
        sequence(['a', 9, 'failure'], ['b', 13, 'success'], ['c', 0, 'pending']),
      ]),
      [
        ['201', '409 error', '201', 'success'],
        ['201', '409 error', '409 error', 'failure'],
        ['201', '201', '201', 'pending'],
      ],
    ],
    [
      [
        'A report without `run` always does, and the status then belongs to no run.',
        'Only a report with `run` gets this.',
      ],
      await sequence(['a', 0, 'failure'], [null, 0, 'pending'], ['b', 60, 'success'], [null, 0, 'error']),
      ['201', '201', '201', '201', 'error'],
    ],
    [
      'A run that is reported as begun at different times began at the earliest of them.',
      await sequence(['a', 20, 'pending'], ['a', 9, 'failure'], ['b', 18, 'success']),
      ['201', '201', '201', 'success'],
    ],
    [
      'StatusReport.elapsed: Milliseconds since the run began, measured at each attempt to send the report; 0 unless given. Requires `run`.',
      [
        await sequence(['a', 9, 'failure'], ['b', 15, 'success'], ['b', 0, 'success']),
        (await server.report('acme/rocket', late, { state: 'success', elapsed: 0 }, token)).json.error,
      ],
      [['201', '409 error', '201', 'success'], 'elapsed requires run, which is missing'],
    ],
    [
      'sha: Full commit id, 40 hex digits, or 64 in a SHA-256 repository, in upper or lower case.',
      (await server.read('acme/rocket', replaced.toUpperCase())).body,
      (await server.read('acme/rocket', replaced)).body,
    ],
    [
      'Status.sha: Full id of the commit, in lower case.',
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
      '`*` stands for any characters, `/` included;',
      (await decide('?require=ci/*')).required,
      [{ pattern: 'ci/*', state: 'success', contexts: ['ci/a/b'] }],
    ],
    [
      'a pattern matches the whole context.',
      (await decide('?require=ci&require=ci/a')).required?.map(({ contexts }) => contexts),
      [[], []],
    ],
    [
      'everything else matches exactly, and the whole context must match.',
      (await decide('?require=CI/*&require=ci.*&require=/*')).required?.map(({ contexts }) => contexts),
      [[], [], []],
    ],
    [
      'Context patterns say which checks are required: those of `require`, and those of all rules that match `branch`.',
      (await decide('?require=z&branch=main')).required?.map(({ pattern }) => pattern),
      ['z', 'lint'],
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
      'CommitVerdict.state: The combined state of all contexts of the commit, required or not; `null` when there are none.',
      [
        (await decide('?require=ci/*')).state,
        (await server.call('GET', path.replace(decided, clean))).json.state,
      ],
      ['failure', null],
    ],
    [
      'The patterns of all rules that match it are required too, with or without `refs/heads/`. A branch without a rule adds nothing.',
      (await Promise.all(['main', 'refs/heads/main', 'other'].map((name) => decide(`?branch=${name}`)))).map(
        ({ required }) => required?.map(({ pattern }) => pattern),
      ),
      [['lint'], ['lint'], []],
    ],
    [
      "With `refs/tags/` it is the full name of a tag, and rules of branches add nothing. An annotated tag has an id of its own: `sha` is that of its commit (`git rev-parse 'v1^{commit}'`).",
      [
        (await decide('?branch=refs/tags/v1')).required?.map(({ pattern }) => pattern),
        await server
          .call('GET', `${path.replace(decided, tag)}?branch=refs/tags/v1`)
          .then(({ status }) => status),
      ],
      [['release'], 404],
    ],
    [
      'CommitVerdict.required: The required patterns, each once: those of `require` as sent, then those of rules.',
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
  ])
})

t.test('so are limits, forms, errors and headers', async (t) => {
  const server = await startServer(t)
  const small = await startServer(t, {
    database: { ...sqlite, create: async (t) => ({ ...(await sqlite.create(t)), maxContexts: 1 }) },
  })
  const { id, commits } = await server.createRepository('acme/rocket', { commits: 20 })
  const hidden = await server.createRepository('acme/hidden', { private: true })
  const away = await server.createRepository('acme/away')
  const [secret = '', lost = ''] = [hidden.commits[0], away.commits[0]]
  const [full = ''] = (await small.createRepository('acme/rocket')).commits
  const [first = '', ordered = '', forms = '', decided = '', clean = ''] = commits
  const token = await server.createToken('acme')
  const smallToken = await small.createToken('acme')
  const stranger = await server.createToken('stranger', { limits: { repositories: [hidden.id, id] } })
  const reader = await server.createToken('reader')
  const scopeless = await server.createToken('acme', { scopes: [] })
  const expired = await server.createToken('acme', { expiresAt: 1 })
  const elsewhere = await server.createToken('acme', { limits: { repositories: [hidden.id] } })
  const ci = await server.createToken('acme', { limits: { contexts: ['ci/*'] } })
  const noPush = await server.createToken('acme', { limits: { push: false } })
  const bot = { id: await createAccount(server, 'ci-bot'), name: 'ci-bot' }
  const rocket = { owner: 'acme', name: 'rocket' }
  await asAdministrator(server.store).reservations.set(rocket, 'reserved', [bot])

  const good = { state: 'success', context: 'ci/a' }
  const report = (sha: string, body: unknown = good, by: string | undefined = token) =>
    server.report('acme/rocket', sha, body, by)
  const statusOf = async (answer: Promise<{ status: number }>) => (await answer).status
  const statusesOf = (...answers: Promise<{ status: number }>[]) => Promise.all(answers.map(statusOf))
  const send = (body: unknown, headers: Record<string, string> = {}) =>
    statusOf(server.call('POST', `/api/v1/repos/acme/rocket/statuses/${forms}`, { token, headers, body }))
  const field = (name: string, value: string) => send({ ...good, [name]: value })
  const decide = async (query: string) =>
    (await server.call('GET', `/api/v1/repos/acme/rocket/commits/${decided}/verdict${query}`)).json
  const mayPush = (by: string) =>
    statusOf(
      server.call('GET', '/acme/rocket.git/info/refs?service=git-receive-pack', {
        headers: { authorization: `Bearer ${by}` },
      }),
    )
  const raw = async (head: string) => {
    const { answers } = await exchange(new URL(server.url), [`${head}\r\nhost: a\r\n\r\n`])
    return answers[0]?.status
  }

  const pending = await report(first, { state: 'pending', context: 'ci/a' })
  const described = { ...good, description: '412 tests passed', target_url: 'https://ci.example.org/1' }
  const stored = await report(first, described)
  const again = await report(first, described)
  const read = await server.read('acme/rocket', first)
  const same = await server.read('ACME/rocket', first.toUpperCase())
  const etag = read.headers.get('etag') ?? ''
  const unchanged = await server.read('acme/rocket', first, undefined, { 'if-none-match': etag })
  for (const context of ['\u{1f600}', '\ufffd', 'b', 'B']) await report(ordered, { ...good, context })
  const ranked = await server.read('acme/rocket', ordered)
  await report(decided, { state: 'success', context: 'caf\u00e9' })
  await report(decided, { state: 'failure', context: 'other' })
  const verdict = await server.call('GET', `/api/v1/repos/acme/rocket/commits/${decided}/verdict?wait=25`)
  const unchangedVerdict = await server.call('GET', `/api/v1/repos/acme/rocket/commits/${decided}/verdict`, {
    headers: { 'if-none-match': verdict.headers.get('etag') ?? '' },
  })
  await small.report('acme/rocket', full, { ...good, context: 'first' }, smallToken)
  const refused = await server.read('acme/hidden', secret)
  const wrongMethod = await server.call('PUT', `/api/v1/repos/acme/rocket/commits/${first}/statuses`)
  await rename(away.path, `${away.path}.away`)
  const unavailable = await server.read('acme/away', lost, token)
  const strict = await startServer(t, { budget: { limit: 1, window: 43 } })
  await strict.read('acme/rocket', first, 'wrong')
  const blocked = await strict.read('acme/rocket', first, 'wrong')
  const wait = Number(blocked.headers.get('retry-after'))
  const refusedTexts = [await field('context', 'a\0'), await field('description', '\ud800')]
  const ofLengths = await statusesOf(
    ...[39, 40, 41, 64].map((length) =>
      server.read('acme/rocket', first.padEnd(length, '0').slice(0, length)),
    ),
  )
  const names = ['.', '..', 'a.git', 'a.LOCK', 'a b', 'A-b_0.c'].map(isName)
  const urls = await Promise.all(
    [
      ...['HTTPS://e.org', 'http://e.org/é'],
      ...['ftp://e.org', 'http://', 'http://e.org/a b', 'http://e.org/\u0085', 'http://e.org/\ud800'],
    ].map((url) => field('target_url', url)),
  )

  prove(t, [
    ['The token needs the `repo` scope.', (await report(forms, good, scopeless)).status, 403],
    ['a public repository needs no token:', read.status, 200],
    [
      'with a message that names the field, the rule and the value received.',
      (await report(forms, { state: 'no state' })).json.error,
      `state must be one of ${schemas.State.enum.join(', ')}; got "no state"`,
    ],
    [
      'with a message that names both.',
      (await report(forms, { ...good, context: 'lint' }, ci)).json.error?.match(/"[^"]*"/g),
      ['"lint"', '"ci/*"'],
    ],
    [
      'A token can be limited to repositories, to reports of contexts that match its patterns, and to git without pushing.',
      [
        ...(await statusesOf(report(forms, good, elsewhere), report(forms, good, ci))),
        (await report(forms, { ...good, context: 'lint' }, ci)).status,
        await mayPush(noPush),
        await mayPush(token),
        (await report(forms, good, noPush)).status,
      ],
      [403, 201, 403, 403, 200, 201],
    ],
    [
      'everything else matches code point by code point, and the whole context must match.',
      (await decide('?require=caf%C3%A9&require=cafe%CC%81&require=caf')).required?.map(({ state }) => state),
      ['success', null, null],
    ],
    [
      'Limits only restrict: a token never gives more access than its user has.',
      await statusesOf(server.read('acme/hidden', secret, stranger), report(forms, good, stranger)),
      [404, 403],
    ],
    [
      'Every error is a JSON object with one field, `error`, a message for people.',
      Object.keys(JSON.parse(refused.body)),
      ['error'],
    ],
    [
      'a malformed request or URL is `400`, an unknown path `404`, a wrong method on a known path `405` with `Allow`, a request that arrives too slowly `408`, an unknown `Expect` `417`, headers over 16 KiB `431`, an error inside the server `500`.',
      [
        await raw('GET / HTTP/1.1\r\nx'),
        (await server.call('GET', '/%zz')).status,
        (await server.call('GET', '/api/v1/none')).status,
        wrongMethod.status,
        wrongMethod.headers.get('allow'),
        errorStatus('too_slow'),
        await raw('GET / HTTP/1.1\r\nexpect: none'),
        await raw(`GET / HTTP/1.1\r\nx: ${'x'.repeat(16_384)}`),
        errorStatus('internal'),
      ],
      [400, 400, 404, 405, 'GET, HEAD', 408, 417, 431, 500],
    ],
    [
      'A `503` carries `Retry-After`.',
      [unavailable.status, Number(unavailable.headers.get('retry-after')) >= 1],
      [503, true],
    ],
    [
      'Repeating a report is always safe: it replaces itself.',
      [again.json.id, read.json.statuses?.length],
      [stored.json.id, 1],
    ],
    [
      'Lengths of text count Unicode code points, those of `target_url` bytes in UTF-8.',
      [
        await field('context', '\u{1f600}'.repeat(255)),
        await field('context', '\u{1f600}'.repeat(256)),
        await field('target_url', `https://e.org/${'é'.repeat(1_017)}`),
        await field('target_url', `https://e.org/${'é'.repeat(1_018)}`),
      ],
      [201, 422, 201, 422],
    ],
    [
      ['Text must not contain U+0000 or a lone surrogate.', 'must not contain U+0000 or a lone surrogate'],
      refusedTexts,
      [422, 422],
    ],
    [
      'requestBody: At most 16,384 bytes of JSON in UTF-8. Fields that are not listed are ignored.',
      [
        await send(JSON.stringify(good).padEnd(16_384), { 'content-type': 'application/json' }),
        await send(JSON.stringify(good).padEnd(16_385), { 'content-type': 'application/json' }),
        await send(Buffer.from('{"state": "success", "description": "é"}', 'latin1'), {
          'content-type': 'application/json',
        }),
        await send({ ...good, unknown: 1 }),
      ],
      [201, 413, 400, 201],
    ],
    ['201: The report is stored. The body is the status as it is now.', again.json, read.json.statuses?.[0]],
    [
      'listStatuses: Returns all statuses of the commit, ordered by the code points of `context`, and the combined state computed from exactly these. A commit without statuses has the state `null`.',
      [
        ranked.json.statuses?.map(({ context }) => context),
        ranked.json.state,
        (await server.read('acme/rocket', clean)).json,
      ],
      [['B', 'b', '\ufffd', '\u{1f600}'], 'success', { state: null, statuses: [] }],
    ],
    [
      'CommitStatuses.statuses: Ordered by the code points of `context`.',
      ranked.json.statuses?.[3]?.context,
      '\u{1f600}',
    ],
    [
      'RequiredPattern.contexts: The reported contexts that the pattern matches, ordered by code points.',
      (await server.call('GET', `/api/v1/repos/acme/rocket/commits/${ordered}/verdict?require=*`)).json
        .required?.[0]?.contexts,
      ['B', 'b', '\ufffd', '\u{1f600}'],
    ],
    [
      'send the `ETag` of the last response as `If-None-Match`: while nothing changes the response is `304`.',
      unchanged.status,
      304,
    ],
    [
      'To wait for a change, ask every few seconds, with the `ETag` of the last response as `If-None-Match`: while nothing changes the response is `304`.',
      unchangedVerdict.status,
      304,
    ],
    [
      '304: The verdict has not changed since the response whose `ETag` is in `If-None-Match`. No body.',
      [unchangedVerdict.status, unchangedVerdict.body],
      [304, ''],
    ],
    [
      '304: The response has not changed since the one whose `ETag` is in `If-None-Match`. No body.',
      [unchanged.status, unchanged.body, unchanged.headers.get('etag')],
      [304, '', etag],
    ],
    [
      'ETag: Weak validator computed from the bytes of the body.',
      [etag.slice(0, 2), same.headers.get('etag') === etag, ranked.headers.get('etag') === etag],
      ['W/', true, false],
    ],
    [
      'require: Patterns of required contexts, one for each repetition of the parameter: `?require=ci/*&require=lint`.',
      (await decide('?require=ci/*&require=lint')).required?.map(({ pattern }) => pattern),
      ['ci/*', 'lint'],
    ],
    [
      'CommitVerdict.verdict: The verdict on the required contexts; on all contexts if no pattern is required.',
      [(await decide('?require=caf*')).verdict, verdict.json.verdict],
      ['success', 'failure'],
    ],
    [
      'The first reported context that a pattern with `*` matches meets it, whatever has not reported yet.',
      (await decide('?require=caf*')).verdict,
      'success',
    ],
    [
      'RequiredPattern.state: The combined state of the contexts that the pattern matches; `null` when it matches none.',
      (await decide('?require=*&require=none')).required?.map(({ state }) => state),
      ['failure', null],
    ],
    ['wait: Without effect: the server responds immediately.', verdict.json, await decide('')],
    [
      [
        'An abbreviated id is invalid (`422`).',
        'CommitId: must be a full commit id of 40 (SHA-1) or 64 (SHA-256) hex digits',
      ],
      ofLengths,
      [422, 200, 422, 422],
    ],
    [
      [
        'not `.` or `..`, and not ending in `.git` or `.lock`.',
        'Name: must be ASCII letters, digits, "-", "_" and ".", not "." or "..", and must not end in ".git" or ".lock"',
      ],
      names,
      [false, false, false, false, false, true],
    ],
    [
      [
        'An `http` or `https` URL by the WHATWG URL standard, at most 2048 bytes in UTF-8, without whitespace and control characters.',
        'StatusReport.target_url: must be a URL that begins with http:// or https:// and contains no whitespace, control character or lone surrogate',
      ],
      urls,
      [201, 201, 422, 422, 422, 422, 422],
    ],
    [
      'Status.id: Identifier of the status record, a UUIDv7. A replacing report keeps it.',
      [stored.json.id, stored.json.id?.[14]],
      [pending.json.id, '7'],
    ],
    [
      'As reported; `null` when none was given.',
      [pending, stored].map(({ json }) => [json.description, json.target_url]),
      [
        [null, null],
        ['412 tests passed', 'https://ci.example.org/1'],
      ],
    ],
    [
      'Timestamp: UTC with whole seconds, always written `YYYY-MM-DDThh:mm:ssZ`.',
      new Date(Math.floor(Date.parse(stored.json.updated_at ?? '') / 1000) * 1000).toISOString(),
      stored.json.updated_at?.replace('Z', '.000Z'),
    ],
    [
      'Cache-Control: Only the caller may store the response, and must revalidate it before each use.',
      [read, unchanged, stored].map(({ headers }) => headers.get('cache-control')),
      Array(3).fill('private, no-cache'),
    ],
    ['No-Store: Errors must not be stored.', refused.headers.get('cache-control'), 'no-store'],
    ['Vary: The response depends on the caller.', refused.headers.get('vary'), 'Authorization'],
    [
      'Retry-After: Seconds to wait before the next attempt, at least 1.',
      [Number.isInteger(wait), wait >= 1, wait <= 43],
      [true, true, true],
    ],
    [
      'Unauthorized: No token, an unknown, expired, revoked or malformed one, or an anonymous caller who cannot use the repository.',
      await statusesOf(
        server.report('acme/rocket', first, good),
        report(first, good, 'unknown'),
        report(first, good, expired),
        server.read('acme/hidden', secret),
      ),
      [401, 401, 401, 401],
    ],
    [
      'Forbidden: The token lacks the `repo` scope, or is limited to other repositories or contexts, the repository reserves the context for other users, or the caller may only read and tried to write.',
      await statusesOf(
        report(first, good, scopeless),
        report(first, good, elsewhere),
        report(first, { ...good, context: 'lint' }, ci),
        report(first, { ...good, context: 'reserved' }),
        report(first, good, reader),
      ),
      [403, 403, 403, 403, 403],
    ],
    [
      'NotFound: The repository, the commit or the branch does not exist, the commit is not on the branch, or the signed-in caller cannot see the repository.',
      await statusesOf(
        server.read('acme/none', first, token),
        server.read('acme/rocket', 'f'.repeat(40), token),
        server.call('GET', '/api/v1/repos/acme/rocket/last-passed?branch=none'),
        server.call('GET', `/api/v1/repos/acme/rocket/last-passed?branch=main&after=${'f'.repeat(40)}`),
        server.read('acme/hidden', secret, reader),
      ),
      [404, 404, 404, 404, 404],
    ],
    ['ContentTooLarge: The body is larger than 16,384 bytes.', await send(' '.repeat(16_385)), 413],
    [
      'UnsupportedMediaType: The content type is missing or not `application/json`, its charset is not UTF-8, or the body has a content encoding.',
      [
        await send('{}', { 'content-type': '' }),
        await send('{}', { 'content-type': 'text/plain' }),
        await send('{}', { 'content-type': 'application/json; charset=latin1' }),
        await send('{}', { 'content-type': 'application/json', 'content-encoding': 'gzip' }),
      ],
      [415, 415, 415, 415],
    ],
    ['BadRequest: The body is not valid JSON.', await send('{', { 'content-type': 'application/json' }), 400],
    [
      'UnprocessableContent: A field or parameter is invalid, the commit id is not a full one, a report would add a context to a commit that already has as many contexts as this server allows, or no checks are required for a branch.',
      [
        await field('state', 'no state'),
        (await server.read('acme/rocket', '2c26b46')).status,
        (await small.report('acme/rocket', full, { ...good, context: 'second' }, smallToken)).status,
        (await server.call('GET', '/api/v1/repos/acme/rocket/last-passed?branch=main')).status,
      ],
      [422, 422, 422, 422],
    ],
    ['TooManyRequests: Too many failed authentication attempts from this address.', blocked.status, 429],
    ['ServiceUnavailable: The service is temporarily unavailable.', unavailable.status, 503],
  ])
})

t.test('so is what is said about branches', async (t) => {
  const server = await startServer(t)
  const repository = await server.createRepository('acme/rocket', { commits: 0 })
  const { path } = repository
  const report = (sha: string, context: string, state = 'success') =>
    server.report('acme/rocket', sha, { context, state }, token)
  const token = await server.createToken('acme')
  const require = (refPattern: string, required: string) =>
    asAdministrator(server.store).rules.set(repository, { refPattern, required: [required], bypass: [] })
  const point = (branch: string, sha: string) => git(path, 'update-ref', `refs/heads/${branch}`, sha)
  const ask = (question: string, headers = {}) =>
    server.call('GET', `/api/v1/repos/acme/rocket/${question}`, { headers })
  const passed = async (query: string) => (await ask(`last-passed?${query}`)).json
  const page = async (query: string) => (await ask(`branches?${query}`)).json
  const statusesOf = (...answers: ReturnType<typeof ask>[]) =>
    Promise.all(answers.map(async (answer) => (await answer).status))
  const namesOf = async (query: string) => (await page(query)).branches?.map(({ name }) => name)

  //  0 ── 1 ── 2 ──── 5 ── 6   the branch main; 4 is the newest commit of a merged branch
  //        └─ 3 ── 4 ─┘
  //                             the branch pulled was at 1 and 2, and then at a merge of 2 into 4, at
  //                             which released was created; several was at 0 and 2, and somebody
  //                             else moved it to that merge; reset was at 4, and then at 2
  const ids = importGraph(path, [[], [0], [1], [1], [3], [2, 4], [5], [4, 2]])
  const [root = '', one = '', two = '', three = '', side = '', , newest = '', pulled = ''] = ids
  const long = importCommits(path, 302).reverse()
  point('main', newest)
  point('docs', newest)
  point('pulled', pulled)
  await addPush(server.store, repository, 'pulled', [one, two])
  await addPush(server.store, repository, 'pulled', [two, pulled])
  point('released', pulled)
  await addPush(server.store, repository, 'released', ['0'.repeat(40), pulled])
  point('several', pulled)
  await addPush(server.store, repository, 'several', [root, two])
  point('reset', two)
  await addPush(server.store, repository, 'reset', [side, two])
  point('long', long[0] ?? '')
  gitWith(path, Buffer.from(`create refs/heads/caf\xe9 ${root}\n`, 'latin1'), 'update-ref', '--stdin')
  point(`${'y'.repeat(200)}/${'y'.repeat(60)}`, root)
  await require('main', 'ci')
  for (const sha of [side, three, one, root]) await report(sha, 'ci')
  await report(one, 'extra', 'failure')

  const found = await passed('branch=main')
  const none = await passed('branch=long&require=ci')
  const etag = (await ask('last-passed?branch=main')).headers.get('etag') ?? ''
  const unchanged = await ask('last-passed?branch=main', { 'if-none-match': etag })
  const first = await ask('branches?limit=2&match=*')
  const samePage = await ask('branches?limit=2&match=*', { 'if-none-match': first.headers.get('etag') ?? '' })
  const last = await ask('branches?limit=5&match=*&after=long')
  const verdict = await ask(`commits/${one}/verdict?branch=main`)
  await require('m*', 'late')
  const later = await passed('branch=main')
  await report(root, 'late')
  const oldest = await passed('branch=main')
  const ruled = (await page('match=main')).branches?.[0]
  const plain = (await page('match=docs')).branches?.[0]

  prove(t, [
    [
      [
        'A list that has pages takes `limit` and `after`.',
        'While there are more pages, the response carries a `Link` with `rel="next"`, relative to the request\'s URL, with all its parameters and the next `after`, which is also the field `next` of the body.',
        "Where the next page is: a reference relative to the request's URL, with all its parameters.",
        'Missing on the last page.',
        'The name after which the next page begins; `null` on the last page.',
      ],
      [first.headers.get('link'), first.json.next, last.headers.get('link'), last.json.next],
      ['<?limit=2&match=*&after=long>; rel="next"', 'long', null, null],
    ],
    [
      [
        'Returns the newest commit that the branch was at, and still contains, whose required checks have passed: its verdict, as of `getVerdict` with the same `branch` and `require`, is `success`.',
        'The combined state of all contexts of the commit, required or not.',
        'How many commits were looked at, this one included.',
        'Name of the branch, without `refs/heads/`.',
        'Full id of the commit, in lower case.',
      ],
      [found, verdict.json.verdict],
      [
        {
          branch: 'main',
          commit: { sha: one, state: 'failure', counts: { ...nothing, success: 1, failure: 1 } },
          looked_at: 4,
          next: null,
        },
        'success',
      ],
    ],
    [
      [
        '2. Checks must be required, by a rule that matches the branch or by `require`.',
        'Otherwise the response is `422`: the first report would make a commit pass.',
      ],
      await statusesOf(
        ask('last-passed?branch=docs'),
        ask('last-passed?branch=docs&require=ci'),
        ask('last-passed?branch=main'),
      ),
      [422, 200, 200],
    ],
    [
      [
        "3. Today's rules count, for old commits too.",
        'A check that is required from now on has not reported on them, so none of them has passed until it does.',
        'The commit; `null` if none of those looked at has passed, or `unless` passes over all that have.',
      ],
      [later.commit, oldest.commit?.sha],
      [null, root],
    ],
    [
      [
        '4. A request looks at 300 commits at most.',
        'If it returns none of them and there are more, `commit` is null and `next` says where to go on, as `Link` does: that is not the same as no commit that passed.',
        "The last commit that was looked at, if `commit` is `null` and there are more: the next request's `after`.",
      ],
      [none, await passed(`branch=long&require=ci&after=${long[299]}`)],
      [
        { branch: 'long', commit: null, looked_at: 300, next: long[299] },
        { branch: 'long', commit: null, looked_at: 2, next: null },
      ],
    ],
    [
      [
        'Name of a branch, with or without `refs/heads/`.',
        'One that does not exist gets `404`, a tag `422`.',
      ],
      await statusesOf(
        ask('last-passed?branch=refs/heads/main'),
        ask('last-passed?branch=mian'),
        ask('last-passed?branch=refs/tags/v1'),
      ),
      [200, 404, 422],
    ],
    [
      'Patterns of required contexts, beside those of rules: as for `getVerdict`.',
      [(await passed('branch=main&require=ci')).commit?.sha, (await passed('branch=main&require=no')).commit],
      [root, null],
    ],
    [
      [
        '1. Only commits that the branch itself was at are looked at: those that the server recorded with each push, and from each of these on its first parents (`git log --first-parent`), as long as they contain the recorded commit before it.',
        'Where nothing is recorded, first parents alone count: below the push that created the branch; before version 0.5.0 of the server; beyond the last 1,000 pushes to the branch, of which a request looks at 300; and below a merge of the branch into a topic of more than 20,000 commits.',
        'What others than this server moved, or a push that named a symbolic ref to the branch, counts as one push.',
      ],
      await Promise.all(
        ['pulled', 'several', 'released'].map(
          async (branch) => (await passed(`branch=${branch}&require=ci`)).commit?.sha,
        ),
      ),
      [one, one, side],
    ],
    [
      [
        'Those that a forced push has removed are not, unless `after` is one.',
        'After one that a forced push has removed, the commits follow that the branch was at before it.',
      ],
      await Promise.all(
        ['', `&after=${side}`].map(
          async (after) => (await passed(`branch=reset&require=ci${after}`)).commit?.sha,
        ),
      ),
      [one, three],
    ],
    [
      'Name at least one context exactly: where no rule matches the branch, and all patterns contain `*`, the response is `422`.',
      await statusesOf(ask('last-passed?branch=docs&require=*'), ask('last-passed?branch=main&require=*')),
      [422, 200],
    ],
    [
      [
        'Commits on which it is `failure` or `error` are passed over.',
        'It is not required: a commit on which it has not reported can pass, and where no rule matches the branch and nothing is in `require`, the response is `422`.',
        'It is no pattern, so it does not contain `*`.',
        'must be the exact name of a context, without "*", U+0000 or a lone surrogate',
      ],
      [
        (await passed('branch=docs&require=ci&unless=extra')).commit?.sha,
        ...(await statusesOf(
          ask('last-passed?branch=docs&unless=extra'),
          ask('last-passed?branch=docs&require=ci&unless=ex*'),
        )),
      ],
      [root, 422, 422],
    ],
    [
      [
        'Begins after this commit, the `next` of an earlier response or another one that the branch was at.',
        'If the branch was not at it, or is not known to have been after a forced push, the response is `404`, and the search begins again without `after`.',
      ],
      await statusesOf(
        ask(`last-passed?branch=main&after=${two}`),
        ask(`last-passed?branch=main&after=${side}`),
      ),
      [200, 404],
    ],
    [
      [
        'The answer has not changed since the response whose `ETag` is in `If-None-Match`. No body.',
        'The page has not changed since the response whose `ETag` is in `If-None-Match`. No body.',
      ],
      [unchanged, samePage].map(({ status, body }) => [status, body]),
      [
        [304, ''],
        [304, ''],
      ],
    ],
    [
      [
        'Returns branches in the order of the code points of their names, each with its newest commit, the combined state of that commit, and the verdict on the checks that rules require.',
        'Ordered by the code points of `name`.',
        'Full id of the newest commit, in lower case.',
        'The combined state of all contexts of the commit; `null` when there are none.',
        'The verdict on the contexts that rules require; `null` without a rule that matches the branch.',
      ],
      [first.json.branches?.map(({ name }) => name), ruled, plain?.verdict],
      [
        ['docs', 'long'],
        {
          name: 'main',
          sha: newest,
          state: null,
          verdict: 'pending',
          counts: nothing,
        },
        null,
      ],
    ],
    [
      [
        'Branches without a rule have the verdict `null`, and no `verdict` matches them.',
        'Only branches whose newest commit has this verdict.',
      ],
      [await namesOf('verdict=pending'), await namesOf('verdict=success'), await namesOf('verdict=failure')],
      [['main'], [], []],
    ],
    [
      [
        'Only branches whose whole name matches this pattern, as in rules: `*` stands for any characters, `/` included; everything else matches exactly.',
        'Begins after this name, the `next` of an earlier response.',
        'It need not be that of a branch any more.',
      ],
      [await namesOf('match=*o*'), await namesOf('match=Main'), await namesOf('after=gone')],
      [['docs', 'long'], [], ['long', 'main', 'pulled', 'released', 'reset', 'several']],
    ],
    [
      [
        'Number of branches on no page: names that are not UTF-8, or longer than `name` may be, cannot be sent.',
        'Number of branches that no page can contain, whether they wait or not: names that are not UTF-8, or longer than `name` may be, cannot be sent.',
      ],
      [first.json.left_out, last.json.left_out, (await ask('awaiting?context=ci')).json.left_out],
      [2, 2, 2],
    ],
  ])
})

t.test('so is what is said about claims, and about branches that wait', async (t) => {
  const server = await startServer(t)
  const { path, commits } = await server.createRepository('acme/rocket', { commits: 302 })
  let sequences = 0
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const report = async (context: string, body: object) => {
    const answer = await server.report('acme/rocket', sha, { context, ...body }, token)
    const { error, claimed_until, updated_at } = answer.json
    return { ...answer, error, claimed_until, updated_at, retryAfter: answer.headers.get('retry-after') }
  }
  /** Reports a new context, or lets seconds pass. Returns whether the last report was stored, and what is. */
  const claims = async (
    ...steps: (number | { state: string; run?: string; elapsed?: number; claim?: number })[]
  ) => {
    const context = `claim ${++sequences}`
    let answer = 0
    for (const step of steps)
      if (typeof step === 'number') await passTime(server.store, step, { context })
      else answer = (await report(context, step)).status
    const { json } = await server.read('acme/rocket', sha)
    return [answer, json.statuses?.find((status) => status.context === context)?.state]
  }
  const claim = (run: string, seconds = 300, state = 'pending') => ({ run, claim: seconds, state })
  await report('held', claim('a'))
  await report('ended', { state: 'failure' })
  await report('requested', { state: 'pending' })
  const held = await report('held', claim('b', 600))
  const renewed = await report('held', claim('a', 20))
  // It began before the request, also where the second has ended since.
  const early = await report('requested', { ...claim('b'), elapsed: 60_000 })
  const refused = [held, await report('ended', claim('b')), early]
  const superseded = await report('held', { state: 'success', run: 'c', elapsed: 60_000 })
  const plain = await report('plain', { state: 'pending', run: 'a' })

  const point = (branch: string, at: string | undefined) =>
    git(path, 'update-ref', `refs/heads/${branch}`, at ?? '')
  const ask = (query: string, headers = {}) =>
    server.call('GET', `/api/v1/repos/acme/rocket/awaiting?${query}`, { headers })
  const names = async (query: string) => (await ask(query)).json.branches?.map(({ name }) => name)
  for (const [branch, index] of [
    ['a', 1],
    ['b', 2],
    ['c', 3],
  ] as const)
    point(branch, commits[index])
  const of = (index: number, context: string, state: string) =>
    server.report('acme/rocket', commits[index] ?? '', { context, state }, token)
  await of(1, 'ci', 'pending')
  await of(2, 'ci', 'error')
  await of(3, 'other', 'failure')
  const first = await ask('context=ci&limit=1')
  const etag = first.headers.get('etag') ?? ''
  await of(1, 'other', 'success')
  await of(3, 'more', 'pending')
  await of(1, 'ci', 'pending')
  const unchanged = await ask('context=ci&limit=1', { 'if-none-match': etag })
  const all = await ask('context=ci')
  const missing = await ask('')
  point('twin', commits.at(-1))
  point('held', sha)
  const askHeld = (headers = {}) => ask('context=held&match=held', headers)
  const heldBefore = await askHeld()
  await passTime(server.store, 600, { context: 'held' })
  const heldAfter = await askHeld({ 'if-none-match': heldBefore.headers.get('etag') ?? '' })
  for (const [index, commit] of commits.entries()) {
    point(`m/${`${index}`.padStart(3, '0')}`, commit)
    if (index < 300) await of(index, 'many', 'success')
  }

  prove(t, [
    [
      'A report with `claim` lets one of several workers run a check: it is stored only where it takes the check from no other. That is so if - the context has no status; - the stored status is of the same run: then it is decided as without `claim`, so a claim whose response was lost can be sent again; - both are `pending`, the stored one of another run, this run is not superseded, and the greater of the two `claim` has passed since the stored one was reported: what was reported without `claim` counts as 0 from the end of its second on; - both are `pending`, the stored one without `run`, which asks for another run: this run began after the second of that report, and is not the last one that claimed the context.',
      [
        await claims(claim('a')),
        await claims(claim('a'), claim('a'), claim('a', 300, 'success')),
        await claims(claim('a', 300, 'success'), claim('a')),
        await claims(claim('a', 300), 280, claim('b', 10)),
        await claims(claim('a', 300), 300, claim('b', 10)),
        await claims(claim('a', 10), 280, claim('b', 300)),
        await claims(claim('a', 10), 300, claim('b', 300)),
        await claims(claim('a', 10), 300, { ...claim('b'), elapsed: 310_000 }),
        await claims({ state: 'pending', run: 'a' }, 6, claim('b', 10)),
        await claims({ state: 'pending', run: 'a' }, 11, claim('b', 10)),
        await claims({ state: 'pending' }, 2, claim('b')),
        await claims({ state: 'pending' }, 2, { ...claim('b'), elapsed: 4_000 }),
        await claims(claim('a'), { state: 'pending' }, 2, claim('a')),
      ],
      [
        [201, 'pending'],
        [201, 'success'],
        [409, 'success'],
        [409, 'pending'],
        [201, 'pending'],
        [409, 'pending'],
        [201, 'pending'],
        [409, 'pending'],
        [409, 'pending'],
        [201, 'pending'],
        [201, 'pending'],
        [409, 'pending'],
        [409, 'pending'],
      ],
    ],
    [
      [
        'In all other cases it gets `409`, which changes nothing and says what is stored.',
        'The `409` of a claim over a `pending` carries `Retry-After`: the seconds until the greater of both claims has passed, at least 1, and 1 without `run`.',
        'Seconds until the greater of both claims has passed, at least 1, and 1 over a `pending` without `run`; only for a claim over a `pending`.',
      ],
      [
        refused.map(({ status, error, retryAfter }) => [
          status,
          error?.replace(/ Nothing was changed\.$/, ''),
          retryAfter?.replace(/^(?:59\d|600)$/, '600'),
        ]),
        [superseded.status, superseded.retryAfter],
      ],
      [
        [
          [409, 'This context is "pending", by the run "a".', '600'],
          [409, 'This context has a result, "failure".', undefined],
          [409, 'This context is "pending", without a run: another run was asked for.', '1'],
        ],
        [409, null],
      ],
    ],
    [
      'So a `pending` with `claim` that is delivered late can take a request for another run that was made after its run began, if other runs have claimed the context since: the request is lost once the result of that run is stored.',
      [
        await claims(claim('a'), claim('b'), 300, claim('b'), { state: 'pending' }, 2, claim('a')),
        await claims(
          claim('a'),
          300,
          claim('b'),
          { state: 'pending' },
          2,
          claim('a'),
          claim('a', 300, 'success'),
        ),
        await claims(claim('a'), 300, claim('b'), { state: 'pending' }, 2, claim('b')),
      ],
      [
        [201, 'pending'],
        [201, 'success'],
        [409, 'pending'],
      ],
    ],
    [
      'So a result with `claim` is stored only over nothing or over its own run, and a worker that gets `409` no longer has the check.',
      [
        await claims(claim('a', 300, 'failure')),
        await claims(claim('a'), claim('a', 300, 'failure')),
        await claims(claim('a', 10), 60, claim('b', 10, 'failure')),
        await claims(claim('a', 10), 60, claim('b', 10), claim('a', 10, 'failure')),
      ],
      [
        [201, 'failure'],
        [201, 'failure'],
        [409, 'pending'],
        [409, 'pending'],
      ],
    ],
    [
      'A `pending` without `run` asks for another run each time.',
      [
        await claims({ state: 'pending' }, 2, claim('a')),
        await claims({ state: 'pending' }, 2, claim('a'), { state: 'pending' }, 2, claim('a')),
      ],
      [
        [201, 'pending'],
        [409, 'pending'],
      ],
    ],
    [
      'A worker takes a new, random `run` for each attempt, and sends `claim` with all of its reports, also with the result: without it, a result may replace the `pending` of another worker.',
      [
        await claims(claim('a'), claim('a')),
        await claims(claim('a'), claim('b', 300, 'success')),
        await claims(claim('a'), { state: 'success', run: 'b' }),
      ],
      [
        [201, 'pending'],
        [409, 'pending'],
        [201, 'success'],
      ],
    ],
    [
      'It repeats its `pending` while the command runs, for example each third of the claim: each time the claim begins again, and one without `claim` ends it.',
      [
        await claims(claim('a'), 280, claim('a'), 280, claim('b', 10)),
        await claims(claim('a'), { state: 'pending', run: 'a' }, 12, claim('b', 10)),
      ],
      [
        [409, 'pending'],
        [201, 'pending'],
      ],
    ],
    [
      [
        'Without a response, or with a `503`, it goes on and repeats the report: a claim that has ended keeps the check until another run takes it.',
        'At `409` it stops, and reports nothing more; after `Retry-After` a new run may claim.',
        'With `Retry-After`, a new run may claim the check after that time.',
        'It gives up a check by a result, such as `error`.',
        'Only workers should report such a context, all with the same `claim`; others only ask for another run.',
      ],
      [
        await claims(claim('a', 10), 3_600, claim('a', 10, 'success')),
        await claims(claim('a', 10), claim('b', 10), 10, claim('c', 10)),
        await claims(claim('a'), claim('a', 300, 'error'), claim('b')),
        await claims(claim('a'), { state: 'success' }),
      ],
      [
        [201, 'success'],
        [201, 'pending'],
        [409, 'error'],
        [201, 'success'],
      ],
    ],
    [
      [
        'Until when the claim holds unless the run reports again, by the clock of the database, rounded down: in each response to a report with `claim` that was stored, and in no other. Count the seconds of `claim` from when the report was sent, instead of comparing this with another clock.',
        'A worker claims a check for 5 minutes',
        'Seconds for which the run claims the check: the report is stored only where no other run has the check, see `reportStatus`. Requires `run`.',
      ],
      [
        // The two clocks may be read in different seconds.
        [20_000, 21_000].includes(
          Date.parse(renewed.claimed_until ?? '') - Date.parse(renewed.updated_at ?? ''),
        ),
        plain.claimed_until,
        (await report('x', { state: 'pending', claim: 300 })).error,
      ],
      [true, undefined, 'claim requires run, which is missing'],
    ],
    [
      [
        'Returns branches whose newest commit has no result of one context, in the order of the code points of their names: the context has not been reported on that commit, or is `pending`.',
        'A branch whose newest commit has no result of the check.',
        'The state of the check, which is `pending`; `null` if nothing has reported it.',
      ],
      all.json.branches,
      [
        { name: 'a', sha: commits[1], state: 'pending' },
        { name: 'c', sha: commits[3], state: null },
        { name: 'main', sha: commits.at(-1), state: null },
      ],
    ],
    [
      [
        'Neither rules nor other contexts count, so the `ETag` stays the same while no branch moves and only these are reported.',
        'It also stays the same when a claim ends, or another run of what is `pending` is asked for: only a claim shows whether the check can be taken. Claim again after the `Retry-After` of a `409`, also while the response is `304`.',
        'To wait for work, ask every few seconds, with the `ETag` of the last response as `If-None-Match`.',
      ],
      [unchanged.status, unchanged.body, unchanged.headers.get('link'), heldBefore.status, heldAfter.status],
      [304, '', '<?context=ci&limit=1&after=a>; rel="next"', 200, 304],
    ],
    [
      [
        'A request looks at 300 branches at most, so a page may be short or empty and still have a next one: go on while there is one.',
        'A branch that is there and waits during all requests is on exactly one page, whatever is pushed meanwhile.',
        'The first page of one branch, whose check is running',
      ],
      [
        (await ask('context=many&match=m/*')).json,
        await names('context=many&match=m/*&after=m/299'),
        await names('context=many&match=m/*&after=m/300'),
      ],
      [{ branches: [], next: 'm/299', left_out: 0, truncated: false }, ['m/300', 'm/301'], ['m/301']],
    ],
    [
      'A commit that several branches are at is listed for each of them.',
      (await ask('context=ci&match=*in')).json.branches?.map(({ name, sha }) => [name, sha]),
      ['main', 'twin'].map((name) => [name, commits.at(-1)]),
    ],
    ['A claim after a result', refused[1]?.status, 409],
    [
      'Exact name of the check; `*` stands for itself.',
      [await names('context=c*&match=b'), missing.status, missing.json.error],
      [['b'], 422, 'context is missing; it is required'],
    ],
  ])
})

t.test('every text of the contract is proved above, or explains without a promise', async (t) => {
  const rest = texts.flatMap((text) =>
    proved
      .toSorted((one, other) => other.length - one.length)
      .reduce((left, words) => left.replaceAll(words, '\n'), text)
      .replace(/^[^\s:]+: /, '')
      .split(/\n|(?<=\D[.:]) (?=[A-Z#]|\d\. )/)
      .map((words) => words.trim())
      .filter((words) => PROMISE.test(words)),
  )
  t.same([...new Set(rest)], EXPLANATIONS)
})

/** Compares what the server answered with what the contract says in these words. */
function prove(t: Test, rows: readonly Proof[]): void {
  for (const [words, answer, expected] of rows) {
    for (const part of [words].flat()) {
      t.ok(
        texts.some((text) => text.includes(part)),
        part,
      )
      proved.push(part)
    }
    t.strictSame(answer, expected, String(words))
  }
}

/** Returns the titles, summaries, descriptions and rules in words of a part of the contract. */
function textsOf(value: Json, name = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => textsOf(item, name))
  if (!isObject(value)) return []
  const about = String(value.operationId ?? value.name ?? name)
  return Object.entries(value).flatMap(([key, inner]) => {
    // Other tests compare the values of examples.
    if (key === 'value') return []
    if (!/^(title|summary|description|x-rule)$/.test(key) || typeof inner !== 'string')
      return textsOf(inner, name.endsWith('.') ? `${name}${key}` : key === 'properties' ? `${name}.` : key)
    const words = inner.replace(/```[\s\S]*?```/g, '').replace(/\s+/g, ' ')
    return [`${about}: ${words.trim()}`]
  })
}
