import { rm } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { postgres } from '../helpers/databases.ts'
import { git } from '../helpers/git.ts'
import { createAccount, csrfOf, openPageClient } from '../helpers/page-client.ts'
import { addToken } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

const HTML = 'text/html; charset=utf-8'
const JSON_TYPE = 'application/json; charset=utf-8'
const POLICY =
  "default-src 'none';script-src 'self';style-src 'self';img-src 'self' data:;connect-src 'self';" +
  "base-uri 'none';form-action 'self';frame-ancestors 'none'"

async function setUp(t: Test) {
  const server = await startServer(t)
  await createAccount(server, 'alice')
  const { commits, path } = await server.createRepository('alice/rocket', { commits: 2 })
  await server.createRepository('bob/secret', { private: true })
  const client = openPageClient(server.url)
  await client.signIn('alice')
  return { server, anonymous: openPageClient(server.url), client, commits, path }
}

t.test('an unknown path gets an error page when the client accepts HTML', async (t) => {
  const { server, anonymous, client } = await setUp(t)
  const accept = 'text/html,application/xhtml+xml,*/*;q=0.8'
  const unknown = ['/alice//', '//alice', '/docs/ui', '/assets/nope.css', '/api/v2']
  for (const path of [...unknown, '/Settings/tokens', '/LOGIN/x', '/alice/rocket/commits/', '/favicon.ico']) {
    const json = await anonymous.get(path)
    t.equal(json.status, 404, path)
    t.equal(json.headers.get('content-type'), JSON_TYPE, path)
    t.same(Object.keys(JSON.parse(json.body)), ['error'])

    const page = await client.get(path, { headers: { accept } })
    t.equal(page.status, 404, path)
    if (path === '/api/v2')
      t.equal(page.headers.get('content-type'), JSON_TYPE, 'the API always answers JSON')
    else {
      t.equal(page.headers.get('content-type'), HTML, path)
      t.equal(page.headers.get('content-security-policy'), POLICY, path)
      t.match(page.body, '<summary>alice</summary>', `${path} knows who looks`)
    }
  }
  t.equal((await anonymous.get('/alice/rocket/')).headers.get('location'), '/alice/rocket')
  const broken = await startServer(t)
  await broken.store.close()
  const cookie = `session=${'x'.repeat(43)}`
  const away = await openPageClient(broken.url).get('/no/such/path', { headers: { accept, cookie } })
  t.equal(away.status, 404, 'without the database the page lacks only the user name')
  t.equal(
    (await openPageClient(server.url).get('/no/such/path', { headers: { accept, cookie } })).status,
    404,
  )
})

t.test('a wrong method is 405 with Allow', async (t) => {
  const { client, anonymous } = await setUp(t)
  const allowed = {
    '/': 'GET, HEAD',
    '/login': 'GET, HEAD, POST',
    '/logout': 'POST',
    '/settings/tokens': 'GET, HEAD, POST',
    '/settings/tokens/1/revoke': 'GET, HEAD, POST',
    '/settings/tokens/1/rotate': 'GET, HEAD, POST',
    '/docs': 'GET, HEAD',
    '/alice': 'GET, HEAD',
    '/nobody': 'GET, HEAD',
    '/alice/rocket': 'GET, HEAD',
    '/alice/rocket/commits/feature/x': 'GET, HEAD, POST',
    '/alice/rocket/checks': 'GET, HEAD',
    '/bob/secret': 'GET, HEAD',
    '/no/body': 'GET, HEAD',
  }
  for (const [path, methods] of Object.entries(allowed)) {
    for (const method of ['PUT', 'DELETE', 'OPTIONS', path === '/logout' ? 'GET' : 'PATCH']) {
      const { status, headers } = await (method === 'PUT' ? anonymous : client).send(method, path)
      t.equal(status, 405, `${method} ${path}`)
      t.equal(headers.get('allow'), methods, path)
      t.equal(headers.get('content-type'), HTML, path)
    }
  }
  const asset = await client.send('POST', '/assets/style.css', { form: {} })
  t.equal(asset.headers.get('content-type'), JSON_TYPE)
})

t.test('HEAD is GET without the body', async (t) => {
  const { client, commits } = await setUp(t)
  const paths = [
    '/',
    '/login',
    '/docs',
    '/settings/tokens',
    '/alice/rocket',
    `/alice/rocket/commits/${commits[0]}`,
    '/alice/rocket/commits/main',
    '/alice/rocket/checks',
  ]
  for (const path of [...paths, '/bob/secret', '/openapi.yaml', '/assets/style.css']) {
    const [get, head] = [await client.get(path), await client.send('HEAD', path)]
    t.equal(head.status, get.status, path)
    t.equal(head.body, '')
    for (const name of ['content-type', 'content-length', 'cache-control', 'location', 'etag']) {
      t.equal(head.headers.get(name), get.headers.get(name), `${path} ${name}`)
    }
  }
})

t.test('a form must have the right type and a limited length', async (t) => {
  const { client } = await setUp(t)
  const csrf = csrfOf((await client.get('/')).body)
  for (const action of ['/login', '/logout', '/settings/tokens']) {
    for (const type of ['application/json', 'multipart/form-data; boundary=x', 'text/plain', ';;;']) {
      const sent = await client.send('POST', action, { headers: { 'content-type': type } })
      t.equal(sent.status, 415, `${action} ${type}`)
      t.equal(sent.headers.get('content-type'), HTML)
    }
    const large = await client.send('POST', action, { form: { csrf, name: 'x'.repeat(64 * 1024) } })
    t.equal(large.status, 413, action)
  }
  t.equal((await client.get('/settings/tokens')).status, 200)
})

t.test('repositories that a user may not see look missing', async (t) => {
  const { client, anonymous, commits } = await setUp(t)
  const sha = 'a'.repeat(40)
  for (const name of ['secret', 'missing', '.git', 'x.git', '%2F', '%00', `${'n'.repeat(101)}`]) {
    for (const rest of ['', `/commits/${sha}`, '/commits/short', `/commits/${'z'.repeat(40)}`]) {
      const path = `/bob/${name}${rest}`
      const asked = await anonymous.get(path)
      t.equal(asked.status, 303, path)
      t.equal(asked.headers.get('location'), `/login?next=${encodeURIComponent(path)}`)
      const page = await client.get(path)
      t.equal(page.status, 404, path)
      t.match(page.body, 'The repository does not exist, or you do not have access to it.')
    }
  }
  t.equal((await client.get(`/alice/rocket/commits/${sha}`)).status, 404)
  for (const wrong of [
    'abc',
    'z'.repeat(40),
    `${'a'.repeat(39)}%0A`,
    '%00',
    sha + sha.slice(16),
    sha.slice(1),
  ]) {
    t.equal((await client.get(`/alice/rocket/commits/${wrong}`)).status, 404, wrong)
  }
  t.equal((await anonymous.get(`/ALICE/Rocket/commits/${commits[0]?.toUpperCase()}`)).status, 200)
})

t.test('pages are not cached, and assets are revalidated', async (t) => {
  const { client, anonymous } = await setUp(t)
  for (const path of ['/', '/login', '/settings/tokens', '/alice/rocket', '/bob/secret', '/docs']) {
    for (const who of [client, anonymous]) {
      const { headers } = await who.get(path)
      t.equal(headers.get('cache-control'), 'no-store', path)
      t.equal(headers.get('vary'), 'Cookie', path)
    }
  }
  for (const path of [
    '/assets/style.css',
    '/assets/swagger-ui-bundle.js',
    '/openapi.yaml',
    '/openapi.json',
  ]) {
    const first = await anonymous.get(path)
    const etag = first.headers.get('etag') ?? ''
    t.match(etag, /^W\/"/, path)
    t.equal(first.headers.get('x-content-type-options'), 'nosniff')
    const again = await anonymous.get(path, { headers: { 'if-none-match': etag } })
    t.equal(again.status, 304, path)
    t.equal(again.body, '')
  }
  const docs = (await anonymous.get('/docs')).body
  for (const name of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
    const path = new RegExp(`"(/assets/${name}[?]v=[^"]+)"`).exec(docs)?.[1] ?? ''
    const kept = await anonymous.get(path, { headers: { 'accept-encoding': 'br;q=1, gzip' } })
    t.equal(kept.headers.get('content-encoding'), 'gzip', path)
    t.match(kept.headers.get('cache-control'), /max-age=31536000, immutable/, path)
    const plain = await anonymous.get(`/assets/${name}?v=other`, {
      headers: { 'accept-encoding': 'gzip;q=0' },
    })
    t.equal(plain.headers.get('content-encoding'), null)
    t.equal(plain.headers.get('cache-control'), 'no-cache', 'another version is not kept')
    t.equal(plain.body, kept.body)
  }
})

t.test('the page of an owner lists what the user may see', async (t) => {
  const { server, client, anonymous } = await setUp(t)
  await server.createRepository('alice/plans', { private: true })
  await server.createRepository('alicia/other')
  const names = async (who: typeof client, path: string) =>
    [...(await who.get(path)).body.matchAll(/ \/ <a href="\/([^"/]+\/[^"/]+)">/g)].map(([, name]) => name)
  t.same(await names(anonymous, '/alice'), ['alice/rocket'])
  t.same(await names(client, '/ALICE'), ['alice/plans', 'alice/rocket'])
  t.match((await client.get('/ALICE')).body, '<h1>Repositories of alice</h1>')
  const missing = async (path: string, who: typeof client) => {
    const { status, headers, body } = await who.get(path)
    return [status, headers.get('location'), body.replace(/value="[^"]*"/, '')]
  }
  for (const path of ['/bob', '/x.git', '/%00', `/${'n'.repeat(101)}`]) {
    t.equal((await client.get(path)).status, 404, path)
    t.same(await missing(path, client), await missing('/nope', client), path)
    t.same(await missing(path, anonymous), [303, `/login?next=${encodeURIComponent(path)}`, ''], path)
  }
  for (const path of ['/settings/tokens?repository=alice/rocket', '/settings/tokens/1/rotate'])
    t.same(await missing(path, anonymous), [303, `/login?next=${encodeURIComponent(path)}`, ''], path)
  const long = `/bob?${'%'.repeat(2_000)}`
  t.same(await missing(long, anonymous), [303, '/login', ''], 'clients refuse long headers')
  for (const path of ['/api', '/API', '/robots.txt', '/Docs', '/settings', '/nope/'])
    t.equal((await anonymous.get(path)).status, 404, path)
})

t.test('repositories are found by any part of OWNER/NAME', async (t) => {
  const { anonymous } = await setUp(t)
  for (const q of ['ROCK', 'ali', ' alice/r ', 'alice/', 'CKE', 'lic', 'e/rock', 'ce/'])
    t.match((await anonymous.get(`/?q=${encodeURIComponent(q)}`)).body, 'href="/alice/rocket"', q)
  const { body } = await anonymous.get('/?q=bo%22%00%3C')
  t.match(body, /contains “<bdi>bo&quot;␀&lt;<\/bdi>”.*/)
  t.match(body, 'value="bo&quot;')
  t.notMatch((await anonymous.get('/?q=bob')).body, 'secret')
  for (const q of ['r_ck', 'ockx', '/rocket/', 'secr', 'b/s'])
    t.notMatch((await anonymous.get(`/?q=${q}`)).body, /href="\/(?:alice|bob)\/\w+"/, q)
  t.match((await anonymous.get('/?q=+&q=x')).body, 'href="/alice/rocket"', 'nothing is searched for')
})

t.test('the start page has broken repositories first, then own ones, and empty ones last', async (t) => {
  const { server, client, anonymous, path } = await setUp(t)
  const create = async (owner: string, name: string, state?: 'success' | 'failure') => {
    const created = await server.createRepository(`${owner}/${name}`, { commits: state ? 1 : 0 })
    const { id: repositoryId, commits } = created
    const status = { context: 'ci', description: null, target_url: null }
    if (state) await server.store.statuses.report({ repositoryId, sha: commits[0] ?? '', state, ...status })
    return created
  }
  await create('alice', 'empty')
  await create('alice', 'zz', 'failure')
  await create('many', 'aaa-empty')
  await create('many', 'green', 'success')
  await create('many', 'red', 'failure')
  const names = async (who: typeof client, path = '/') =>
    [...(await who.get(path)).body.matchAll(/ \/ <a href="\/([^"/]+\/[^"/]+)">/g)].map(([, name]) => name)
  const expected = ['alice/zz', 'many/red', 'alice/rocket', 'many/green', 'alice/empty', 'many/aaa-empty']
  t.same(await names(client), expected)
  // Those that are alike are in the order of their last commits, and have one of this or of the next second.
  const all = await names(anonymous)
  t.same(
    [0, 2, 4].flatMap((index) => all.slice(index, index + 2).sort()),
    expected,
  )
  t.same(await names(client, '/many'), ['many/red', 'many/green', 'many/aaa-empty'])

  const add = (index: number) =>
    asAdministrator(server.store).repositories.create({
      owner: 'many',
      name: `r${String(index).padStart(3, '0')}`,
      visibility: 'public',
      objectFormat: 'sha1',
      path,
    })
  for (let index = 0; index < 40; index++) await add(index)
  git(path, 'pack-refs', '--all')
  await create('zoe', 'reftable', 'failure')
  const rule = { refPattern: 'main', required: ['e2e'], bypass: [] }
  await asAdministrator(server.store).rules.set({ owner: 'many', name: 'green' }, rule)
  const alias = await create('zoe', 'alias', 'success')
  git(alias.path, 'symbolic-ref', 'refs/heads/trunk', 'refs/heads/main')
  git(alias.path, 'symbolic-ref', 'HEAD', 'refs/heads/trunk')
  await asAdministrator(server.store).rules.set({ owner: 'zoe', name: 'alias' }, rule)
  const first = ['alice/zz', 'many/red', 'zoe/reftable', 'alice/rocket', 'many/green', 'many/r000']
  const shown = await names(client)
  t.same([...shown.slice(0, 3).sort(), ...shown.slice(3, 6)], first, 'of more than a page shows')
  t.same([shown.length, shown.includes('many/aaa-empty')], [30, false], 'empty ones come last')
  const running = ['many/green', 'zoe/alias']
  const found = await names(client, '/?state=running')
  t.same(found.sort(), running, 'a success that lacks a required check')
  t.same(await names(client, '/?state=passing'), [])
  const [row = ''] = /<li(?:(?!<li).)*zoe\/alias.*?<\/li>/s.exec((await client.get('/zoe')).body) ?? []
  t.match(row, /icon pending.*e2e has not reported/s, 'HEAD leads to the branch with the rule')
})

t.test('the list of repositories is paged', async (t) => {
  const { server, anonymous, path, client } = await setUp(t)
  for (let index = 0; index < 265; index++) {
    const name = `r${String(index).padStart(3, '0')}`
    await asAdministrator(server.store).repositories.create({
      owner: 'many',
      name,
      visibility: 'public',
      objectFormat: 'sha1',
      path,
    })
  }
  const counts: number[] = []
  let next: string | undefined = '/'
  const seen = new Set<string>()
  while (next !== undefined) {
    const { body } = await anonymous.get(next)
    for (const [row] of body.matchAll(/id="r-\d+"/g)) seen.add(row)
    t.notMatch(body, 'secret')
    counts.push(body.match(/<li id="r-/g)?.length ?? 0)
    next = /href="(\/\?after=[^"]*)"/.exec(body)?.[1]
  }
  t.same(counts, [30, 200, 66], 'by name from the second page on')
  t.equal(seen.size, 266)
  t.match((await anonymous.get('/many')).body, 'href="/many?after=many%2Fr199"')
  t.equal((await anonymous.get('/many?after=many%2Fr199')).body.match(/id="r-/g)?.length, 65)
  for (const after of ['', 'x', '%00/%00', 'a/b/c', 'a&after=b']) {
    t.equal((await anonymous.get(`/?after=${after}`)).status, 200, after)
  }

  // What people want to know of one repository among many, by the clicks that it takes.
  const [sha, parent] = git(path, 'log', '--format=%H').split('\n')
  const token = await server.createToken('alice')
  const log = 'https://ci.example.org/jobs/7'
  const report = (commit = '', state = 'failure') =>
    server.report('alice/rocket', commit, { state, context: 'ci/test', target_url: log }, token)
  await report(parent, 'success')
  await report(sha)
  const home = (await client.get('/')).body
  t.match(
    home,
    new RegExp(`class="failed"><span><a href="${log}"[^>]*>.*ci/test`),
    'none: what failed; one: its log',
  )
  t.match(home, '<span class="icon failure">failure</span>', 'none: whether it is safe to merge')
  const commit = /href="(\/alice\/rocket\/commits\/[^"]*)"/.exec(home)?.[1] ?? ''
  const { body: shown } = await client.get(commit)
  t.match(shown, /[Ff]irst failed here/, 'one: since when')
  t.match(shown, 'by alice', 'one: who reported it')
  t.match((await client.get('/?q=r173')).body, 'href="/many/r173"', 'two: any repository')
})

t.test('a repository with missing files is 503 for its readers, and 404 once deleted', async (t) => {
  const { server, client, anonymous, path, commits } = await setUp(t)
  await rm(path, { recursive: true })
  for (const rest of ['', `/commits/${commits[0]}`]) {
    const { status, headers } = await anonymous.get(`/alice/rocket${rest}`)
    t.equal(status, 503, rest)
    t.equal(headers.get('retry-after'), '2')
  }
  await asAdministrator(server.store).repositories.delete({ owner: 'alice', name: 'rocket' })
  t.equal((await client.get('/alice/rocket')).status, 404)
})

t.test('a repository that is deleted during a request is missing, on every page', async (t) => {
  const { server, client, anonymous } = await setUp(t)
  const { listing } = server.store
  const find = listing.find
  t.teardown(() => {
    listing.find = find
  })
  const pages = ['', '/commits/COMMIT', '/commits/main', '/checks', '/badge.svg']
  const settings = ['', '/access', '/checks', '/events'].map((page) => `/settings${page}`)
  // Another one that has the name by then is not what was asked for.
  const gone = { owner: 'alice', name: 'gone' }
  for (const reader of [client, anonymous]) {
    const { path } = await server.createRepository('alice/gone', { commits: 1 })
    listing.find = async (...args) => {
      const repository = await find(...args)
      listing.find = find
      await asAdministrator(server.store).repositories.delete(gone)
      await rm(path, { recursive: true })
      await server.createRepository('alice/gone', { commits: 1 })
      return repository
    }
    t.equal((await reader.get('/alice/gone')).status, reader === client ? 404 : 303)
    t.equal((await reader.get('/alice/gone')).status, 200, 'the next request is about the other one')
    await asAdministrator(server.store).repositories.delete(gone)
  }

  for (const page of [...pages, ...settings])
    for (const reader of page.startsWith('/settings') ? [client] : [client, anonymous]) {
      const { path, commits } = await server.createRepository('alice/gone', { commits: 1 })
      listing.find = async (...args) => {
        const repository = await find(...args)
        listing.find = find
        await asAdministrator(server.store).repositories.delete(gone)
        await rm(path, { recursive: true })
        return repository
      }
      const { status } = await reader.get(`/alice/gone${page.replace('COMMIT', commits[0] ?? '')}`)
      t.ok([200, 303, 404].includes(status), `${page}: ${status}`)
      t.equal((await client.get(`/alice/gone${page.replace('COMMIT', commits[0] ?? '')}`)).status, 404, page)
    }
})

t.test('the page of a former name says the new one, and leads to the sign-in', async (t) => {
  const { server, client, anonymous } = await setUp(t)
  await server.createRepository('alice/before')
  await asAdministrator(server.store).repositories.rename(
    { owner: 'alice', name: 'before' },
    { owner: 'alice', name: 'after' },
  )
  const { status, body } = await anonymous.get('/alice/before/checks')
  t.equal(status, 401)
  t.match(body, 'The repository is called alice/after now. Use that name.')
  const link = '<p><a href="/alice/after">alice/after</a> · '
  t.match(body, `${link}<a href="/login?next=%2Falice%2Fbefore%2Fchecks">Sign in</a> · <a href="/">`)
  t.notMatch(body, /token|Authorization/, 'pages take none')
  const signedIn = await client.get('/alice/before/checks')
  t.equal(signedIn.status, 404)
  t.match(signedIn.body, 'The repository is called alice/after now.')
  t.match(signedIn.body, `${link}<a href="/">`)
  t.notMatch(signedIn.body, /Sign in</)
})

t.test('tokens of other users look missing', async (t) => {
  const { server, client } = await setUp(t)
  await server.createToken('bob')
  const [{ id } = { id: '' }] = await server.store.tokens.list(await server.createUser('bob'))
  for (const wrong of [id, 'x', '%00']) {
    for (const what of ['revoke', 'rotate']) {
      t.equal((await client.get(`/settings/tokens/${wrong}/${what}`)).status, 404, wrong)
      t.equal((await client.submit('/', `/settings/tokens/${wrong}/${what}`)).status, 404, wrong)
    }
  }
  t.equal((await server.store.tokens.list(await server.createUser('bob'))).length, 1)
})

t.test('a token gets another secret in the browser, with its limits', async (t) => {
  const { server, client, commits } = await setUp(t)
  const userId = await server.createUser('alice')
  const { id: repositoryId } = await server.store.repositories.get('alice', 'rocket')
  const limits = { repositories: [repositoryId], contexts: ['ci/*'], push: false }
  const { id, secret } = await addToken(server.store, userId, { name: 'CI', limits })
  const page = `/settings/tokens/${id}/rotate`
  t.match((await client.get('/settings/tokens')).body, `href="${page}"`)
  const { status, body } = await client.submit(page, page)
  t.equal(status, 200)
  const [, fresh = ''] = /id="secret"[^>]*>(cst_\w+)</.exec(body) ?? []
  t.match(body, '“<bdi>CI (replaced)</bdi>”')
  for (const [token, context, expected] of [
    [fresh, 'ci/test', 201],
    [fresh, 'deploy', 403],
    [secret, 'ci/test', 201],
    [secret, 'deploy', 403],
  ] as const)
    t.equal(
      (await server.report('alice/rocket', commits[0] ?? '', { context, state: 'success' }, token)).status,
      expected,
      context,
    )
  const listed = await server.store.tokens.list(userId)
  t.same(listed.map((token) => [token.id === id, token.name]).sort(), [
    [false, 'CI (replaced)'],
    [true, 'CI'],
  ])
  const links = (await client.get('/settings/tokens')).body.match(/[^"]*\/rotate(?=")/g)
  t.same(links, [page], 'an old secret cannot be rotated')
  const revoked = async (id = '') => {
    const revoke = `/settings/tokens/${id}/revoke`
    t.equal((await client.submit(revoke, revoke)).status, 303)
    const { body } = await client.get('/settings/tokens')
    return /role="status"><bdi>([^<]*)/.exec(body)?.[1]
  }
  t.equal(
    await revoked(id),
    'The token “CI” was revoked. Its old secret still works, as “CI (replaced)”, until you revoke that one too.',
  )
  t.equal(
    await revoked(listed.find((token) => token.id !== id)?.id),
    'The token “CI (replaced)” was revoked.',
  )
  const past = Date.now() - 1
  const { id: again } = await addToken(server.store, userId, { name: 'again' })
  await client.submit('/settings/tokens', `/settings/tokens/${again}/rotate`)
  await server.store.engine.kysely
    .updateTable('tokens')
    .set({ expires_at: past })
    .where('name', '=', 'again (replaced)')
    .execute()
  t.equal(await revoked(again), 'The token “again” was revoked.', 'its old secret has expired')
  const { id: other } = await addToken(server.store, userId, { name: 'other' })
  await addToken(server.store, userId, { name: 'other (replaced)' })
  t.equal(await revoked(other), 'The token “other” was revoked.', 'another token has such a name')
  const { id: expired } = await addToken(server.store, userId, { name: 'old', expiresAt: past })
  const refused = await client.submit('/settings/tokens', `/settings/tokens/${expired}/rotate`)
  t.equal(refused.status, 422)
  t.match(refused.body, 'has expired')
})

t.test('text that PostgreSQL cannot store is no server error', async (t) => {
  const server = await startServer(t, { database: postgres })
  await createAccount(server, 'alice')
  await server.createRepository('alice/rocket')
  const client = openPageClient(server.url)
  t.equal((await client.signIn('ali\0ce')).status, 401)
  t.equal((await client.signIn('alice')).status, 303)
  const form = { name: 'a\0b', expiry: 'none' }
  t.equal((await client.submit('/settings/tokens', '/settings/tokens', form)).status, 422)
  t.equal((await client.get('/settings/tokens/%00/revoke')).status, 404)
  t.equal((await client.get('/?after=a%00/b')).status, 200)
  t.equal((await client.get('/a%00/b')).status, 404)
  t.equal((await client.get('/alice/rocket/commits/%00')).status, 404)
})

t.test('a limited token by the form, and who reported on the page of a commit', async (t) => {
  const { server, client, anonymous, commits } = await setUp(t)
  const [sha = ''] = commits
  const { store } = server
  const { id } = await store.repositories.get('alice', 'rocket')
  const form = { name: "alice's <CI>", scope: 'repo', expiry: 'none' }
  const submit = (fields: Record<string, string>) =>
    client.submit('/settings/tokens', '/settings/tokens', { ...form, ...fields })

  const page = await client.get('/settings/tokens')
  t.match(page.body, new RegExp(`name="repository" value="${id}" > alice/rocket<`))
  t.notMatch(page.body, 'bob/secret', 'only those that the user can write to')
  const secret = await store.repositories.get('bob', 'secret')
  const other = await submit({ repository: String(secret.id), contexts: 'ci/*' })
  t.equal(other.status, 422)
  t.match(other.body, /can no longer write/)
  t.match(other.body, />\nci\/\*<\/textarea>/, 'keeps what was entered')
  t.same(await store.tokens.list(await server.createUser('alice')), [])

  const created = await submit({ repository: String(id), contexts: "it's <b>/*\r\n" })
  t.equal(created.status, 200)
  const limits = /<ul class="limits">(.*?)<\/ul>/s.exec(created.body)?.[1] ?? ''
  t.match(limits, /<li>alice\/rocket<\/li>.*it&#39;s &lt;b&gt;\/\*.*<li>no push<\/li>/s)
  t.match(
    created.body,
    /it&#39;\\&#39;&#39;s &lt;b&gt;\/hello/,
    'the example is a context that it may report',
  )
  const token = /<code id="secret"[^>]*>([^<]+)</.exec(created.body)?.[1] ?? ''
  const report = (context: string) => server.report('alice/rocket', sha, { state: 'success', context }, token)
  t.equal((await report("it's <b>/hello")).status, 201)
  t.equal((await report('other')).status, 403)

  const commit = `/alice/rocket/commits/${sha}`
  t.match((await client.get(commit)).body, /by alice, token .*alice&#39;s &lt;CI&gt;/)
  const seen = (await anonymous.get(commit)).body
  t.match(seen, /by alice</)
  t.notMatch(seen, '&lt;CI&gt;', 'names of tokens are for those who may write')
  for await (const events of store.auditLog.list({ user: 'alice' }))
    t.match(events.filter(({ action }) => action === 'token.created').at(-1), {
      user: 'alice',
      object: "alice's <CI>",
      details: { repositories: ['alice/rocket'], contexts: ["it's <b>/*"], push: false },
    })
  const exact = await submit({ repository: String(id), contexts: 'deploy' })
  t.match(exact.body, 'OWNER/REPOSITORY/statuses/COMMIT', 'the example reports no real check of a commit')
})
