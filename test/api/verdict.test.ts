import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { git } from '../helpers/git.ts'
import { startServer } from '../helpers/server.ts'

const REPO = 'acme/rocket'

async function setUp(t: Test) {
  const server = await startServer(t)
  const { commits } = await server.createRepository(REPO)
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const report = (context: string, state: string) => server.report(REPO, sha, { context, state }, token)
  const ask = (query = '', headers: Record<string, string> = {}, id = sha) =>
    server.call('GET', `/api/v1/repos/${REPO}/commits/${id}/verdict${query}`, { headers })
  return { server, sha, token, report, ask }
}

t.test('the verdict of a commit', async (t) => {
  const { server, sha, token, report, ask } = await setUp(t)
  t.same((await ask()).json, { verdict: 'pending', state: null, required: [] }, 'nothing is reported')
  await report('ci/build', 'success')
  t.same((await ask()).json, { verdict: 'success', state: 'success', required: [] }, 'all contexts count')
  t.same((await ask('?branch=main')).json.verdict, 'success', 'a branch without a rule adds nothing')
  await report('ci/lint', 'success')
  await report('docs', 'pending')
  t.same((await ask('?require=ci/*&require=lint&require=ci%2F*')).json, {
    verdict: 'pending',
    state: 'pending',
    required: [
      { pattern: 'ci/*', state: 'success', contexts: ['ci/build', 'ci/lint'] },
      { pattern: 'lint', state: null, contexts: [] },
    ],
  })
  t.match((await ask('?require=a+b+c')).json.required, [{ pattern: 'a b c' }], 'as forms are encoded')
  t.equal((await ask('?require=ci/*')).json.verdict, 'success')
  t.equal((await ask()).json.verdict, 'pending')
  await report('ci/lint', 'error')
  t.equal((await ask('?require=lint&require=ci/*')).json.verdict, 'failure')
  t.equal((await ask('?require=ci/build')).json.verdict, 'success')

  const upper = await ask('?require=ci/*', {}, sha.toUpperCase())
  t.equal(upper.json.verdict, 'failure')
  const head = await server.call('HEAD', `/api/v1/repos/${REPO}/commits/${sha}/verdict`)
  t.equal(head.status, 200)
  t.equal((await ask('', {}, '0'.repeat(40))).status, 404, 'no such commit')
  t.equal((await ask('', {}, sha.slice(0, 8))).status, 422)
  t.match((await ask('', {}, '0'.repeat(64))).json.error, /^sha is 64 hex digits long/)
  const scopeless = await server.createToken('acme', { scopes: [] })
  for (const [status, credential] of [
    [200, token],
    [403, scopeless],
    [401, 'wrong'],
  ] as const) {
    const answer = await server.call('GET', `/api/v1/repos/${REPO}/commits/${sha}/verdict`, {
      token: credential,
    })
    t.equal(answer.status, status)
  }
})

t.test('a branch adds the patterns of its rules', async (t) => {
  const { server, report, ask } = await setUp(t)
  const repository = await server.store.repositories.get('acme', 'rocket')
  const require = (refPattern: string, ...required: string[]) =>
    asAdministrator(server.store).rules.set(repository, { refPattern, required, bypass: [] })
  await require('main', 'lint', 'ci/*')
  await report('ci/build', 'success')
  t.equal((await ask('?branch=docs')).json.verdict, 'success', 'no rule matches it')
  t.same((await ask('?branch=main&require=ci/build')).json, {
    verdict: 'pending',
    state: 'success',
    required: [
      { pattern: 'ci/build', state: 'success', contexts: ['ci/build'] },
      { pattern: 'lint', state: null, contexts: [] },
      { pattern: 'ci/*', state: 'success', contexts: ['ci/build'] },
    ],
  })
  t.equal((await ask('?branch=refs/heads/main')).json.verdict, 'pending', 'as CI systems name it')
  await report('lint', 'success')
  const passed = await ask('?branch=main')
  t.equal(passed.json.verdict, 'success')
  await require('ma*', 'docs')
  const held = await ask('?branch=main', { 'if-none-match': passed.headers.get('etag') ?? '' })
  t.match(held, { status: 200, json: { verdict: 'pending' } }, 'a new rule changes the answer')
})

t.test('a broken parameter is named', async (t) => {
  const { ask } = await setUp(t)
  for (const [query, error] of [
    ['?wait=26', /^wait must be <= 25; got 26$/],
    ['?wait=-1', /^wait must be >= 0; got -1$/],
    ['?wait=1.5', /^wait must be an integer; got 1.5$/],
    ['?wait=soon', /^wait must be an integer; got "soon"$/],
    ['?wait=', /^wait must be an integer; got ""$/],
    ['?wait=1&wait=1', /^wait was sent more than once; send it once$/],
    ['?branch=', /^branch is 0 characters long; at least 1 is required$/],
    ['?branch=a&branch=b', /^branch was sent more than once; send it once$/],
    ['?require=', /^require.0 is 0 characters long; at least 1 is required$/],
    [`?require=a&require=${'b'.repeat(256)}`, /^require.1 is 256 characters long; at most 255 are allowed$/],
    ['?require=a%00', /^require.0 must not contain U\+0000 or a lone surrogate/],
    [`?${'require=a&'.repeat(51)}`, /^require must NOT have more than 50 items/],
  ] as const) {
    const { status, json } = await ask(query)
    t.equal(status, 422, query)
    t.match(json.error, error)
  }
  for (const name of ['requires', 'Require', 'require[]', 'x', '__proto__', '']) {
    const { status, json } = await ask(`?require=a&${name}=lint`)
    t.equal(status, 422, name)
    t.equal(
      json.error,
      `"${name}" is an unknown query parameter; this operation takes require, branch and wait`,
    )
  }
})

t.test('a comma is part of a pattern', async (t) => {
  const { report, ask } = await setUp(t)
  await report('a', 'success')
  const { json } = await ask('?require=a,b')
  t.match(json, { verdict: 'pending', required: [{ pattern: 'a,b', state: null }] })
})

t.test('a query that cannot be decoded is a malformed URL, whatever the caller may see', async (t) => {
  const { server, sha, token, ask } = await setUp(t)
  for (const query of ['?require=%ff', '?%zz', '?x=%', '?a=%c3&b=%a9', '?require=%ED%A0%80']) {
    const { status, json } = await ask(query)
    t.match({ status, json }, { status: 400, json: { error: /^The URL is malformed/ } }, query)
    for (const [method, path, body] of [
      ['GET', `/api/v1/repos/${REPO}/commits/${sha}/statuses`],
      ['GET', `/api/v1/repos/acme/missing/commits/${sha}/statuses`],
      ['POST', `/api/v1/repos/${REPO}/statuses/${sha}`, { state: 'success' }],
    ] as const)
      t.equal((await server.call(method, path + query, { token, body })).status, 400, `${method} ${query}`)
  }
  for (const query of ['?', '?&&', '?x=1&require[]=lint', '?%c3%a9=%F0%9F%98%80']) {
    const { status } = await server.call('GET', `/api/v1/repos/${REPO}/commits/${sha}/statuses${query}`)
    t.equal(status, 200, `an operation without parameters ignores ${query}`)
  }
})

t.test('the deprecated `wait` holds no answer', async (t) => {
  const { ask, report } = await setUp(t)
  await report('ci/build', 'pending')
  const etag = (await ask('?wait=25')).headers.get('etag') ?? ''
  const start = performance.now()
  const answer = await ask('?wait=25', { 'if-none-match': etag })
  t.equal(answer.status, 304)
  t.equal(answer.headers.get('etag'), etag)
  t.equal(answer.headers.get('retry-after'), null)
  t.ok(performance.now() - start < 20_000)
  await report('ci/build', 'success')
  const changed = await ask('?wait=25', { 'if-none-match': etag })
  t.match(changed, { status: 200, json: { verdict: 'success' } })
})

t.test('the id of an annotated tag gets 404 that names its commit, and its page leads there', async (t) => {
  const { server, ask, sha, token } = await setUp(t)
  const { path } = await server.store.repositories.get('acme', 'rocket')
  const tagOf = (name: string, of: string) => {
    git(path, '-c', 'user.name=x', '-c', 'user.email=x', 'tag', '--message=x', name, of)
    return git(path, 'rev-parse', name)
  }
  const tag = tagOf('v1', sha)
  for (const id of [tag, tagOf('v2', tag)]) {
    const error = `${id} is a tag object; its commit is ${sha}. Send that id.`
    t.match(await ask('?branch=refs/tags/v1', {}, id), { status: 404, json: { error } })
    t.match(await server.read('acme/rocket', id), { status: 404, json: { error } })
    const report = await server.report('acme/rocket', id, { state: 'success' }, token)
    t.match(report, { status: 404, json: { error } })
    const page = await fetch(`${server.url}/acme/rocket/commits/${id}?filter=x`, { redirect: 'manual' })
    t.match([page.status, page.headers.get('location')], [303, `/acme/rocket/commits/${sha}?filter=x`])
  }
  const tree = git(path, 'rev-parse', `${sha}^{tree}`)
  for (const id of [tree, tagOf('of-tree', tree), 'f'.repeat(40)]) {
    t.match(await ask('', {}, id), { status: 404, json: { error: /^The commit does not exist/ } })
    t.equal((await fetch(`${server.url}/acme/rocket/commits/${id}`, { redirect: 'manual' })).status, 404)
  }
  t.equal((await ask('?branch=refs/tags/v1')).status, 200)
})
