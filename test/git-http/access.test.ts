import { once } from 'node:events'
import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { startServer, type TestServer } from '../helpers/server.ts'
import { basic, createCheckout, git, tryGit, workFolder } from './client.ts'
import { WHOLE } from './git-server.ts'
import { beginRpc } from './raw.ts'

const FETCH = '/info/refs?service=git-upload-pack'
const PUSH = '/info/refs?service=git-receive-pack'

/**
 * Sends the requests of a fetch and of a push; with `others` also requests that no git client
 * sends.
 */
async function answersTo(server: TestServer, name: string, authorization?: string, others = true) {
  const headers = { ...(authorization !== undefined && { authorization }) }
  const ask = async (method: string, path: string, service = 'git-upload-pack') => {
    const answer = await fetch(`${server.url}/${name}.git${path}`, {
      method,
      headers: {
        ...headers,
        ...(method === 'POST' && { 'content-type': `application/x-${service}-request` }),
      },
      ...(method === 'POST' && { body: '0000' }),
    })
    const body = await answer.text()
    if (answer.status >= 400) {
      t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
      if (method !== 'HEAD') t.match(body, /^[A-Z][^\n]+\.\n$/, `${method} ${path}`)
    }
    const rest = [...answer.headers].filter(([key]) => key !== 'date' && key !== 'x-request-id')
    return { status: answer.status, headers: Object.fromEntries(rest), body }
  }
  return {
    refs: await ask('GET', FETCH),
    fetch: await ask('POST', '/git-upload-pack'),
    pushRefs: await ask('GET', PUSH),
    push: await ask('POST', '/git-receive-pack', 'git-receive-pack'),
    ...(others && { head: await ask('HEAD', FETCH), dumb: await ask('GET', '/info/refs') }),
  }
}

async function statuses(server: TestServer, name: string, authorization?: string): Promise<string> {
  const { refs, fetch, pushRefs, push } = await answersTo(server, name, authorization, false)
  t.equal(refs.status, fetch.status, 'both requests of a fetch have the same status')
  t.equal(pushRefs.status, push.status, 'both requests of a push have the same status')
  return `${refs.status} ${push.status}`
}

t.test('who may fetch and who may push', async (t) => {
  const server = await startServer(t, { budget: { limit: 1000, window: 300 } })
  await server.createRepository('owner/public')
  const { store } = server
  await server.createRepository('owner/private', { private: true })
  await server.createUser('owner')
  await asAdministrator(store).collaborators.set(
    { owner: 'owner', name: 'private' },
    await server.createUser('reader'),
    'read',
  )
  await asAdministrator(store).collaborators.set(
    { owner: 'owner', name: 'private' },
    await server.createUser('writer'),
    'write',
  )
  const callers: Record<string, string | undefined> = {
    anonymous: undefined,
    'an empty header': '',
    'Basic of two empty parts': basic('', ''),
    unknown: basic('x', 'cst_unknown'),
    'the password of an account': basic('owner', 'a password'),
    malformed: 'Basic !',
    'without a colon': 'Basic YWJj',
    'an empty user name': basic('', 'x-oauth-basic'),
    'a scheme alone': 'Basic',
    'another scheme': 'Digest abc',
    'no scope': basic('x', await server.createToken('owner', { scopes: [] })),
    expired: basic('x', await server.createToken('owner', { expiresAt: 1 })),
    stranger: basic('x', await server.createToken('stranger')),
    reader: basic('x', await server.createToken('reader')),
    writer: basic('x', await server.createToken('writer')),
    owner: basic('x', await server.createToken('owner')),
    'owner, as user name': basic(await server.createToken('owner'), ''),
    'owner, x-oauth-basic': basic(await server.createToken('owner'), 'x-oauth-basic'),
    'owner, Bearer': `Bearer ${await server.createToken('owner')}`,
    'owner, token': `token ${await server.createToken('owner')}`,
  }
  const table: Record<string, string> = {}
  for (const [caller, authorization] of Object.entries(callers)) {
    const row = []
    for (const name of ['owner/public', 'owner/private', 'owner/missing'])
      row.push(await statuses(server, name, authorization))
    table[caller] = row.join(' | ')
  }
  const refused = '401 401 | 401 401 | 401 401'
  const granted = '200 200 | 200 200 | 404 404'
  t.same(table, {
    anonymous: '200 401 | 401 401 | 401 401',
    'an empty header': '200 401 | 401 401 | 401 401',
    'Basic of two empty parts': '200 401 | 401 401 | 401 401',
    unknown: refused,
    'the password of an account': refused,
    malformed: refused,
    'without a colon': refused,
    'an empty user name': refused,
    'a scheme alone': refused,
    'another scheme': refused,
    'no scope': '403 403 | 403 403 | 403 403',
    expired: refused,
    stranger: '200 403 | 404 404 | 404 404',
    reader: '200 403 | 200 403 | 404 404',
    writer: '200 403 | 200 200 | 404 404',
    owner: granted,
    'owner, as user name': granted,
    'owner, x-oauth-basic': granted,
    'owner, Bearer': granted,
    'owner, token': granted,
  })
})

t.test('access to a push is checked again when it has arrived', async (t) => {
  const server = await startServer(t, { budget: { limit: 1000, window: 300 } })
  await server.createRepository('owner/one', { private: true })
  const { store } = server
  const writer = await server.createUser('writer')
  const push = async (between: () => Promise<unknown>, name = 'one') => {
    const token = basic('x', await server.createToken('writer'))
    await asAdministrator(store).collaborators.set({ owner: 'owner', name }, writer, 'write')
    const url = `${server.url}/owner/${name}.git`
    const { request, answer } = beginRpc(url, 'git-receive-pack', token, { expect: '100-continue' })
    request.flushHeaders()
    await once(request, 'continue')
    await between()
    request.end(WHOLE.push, 'latin1')
    const { status, body } = await answer
    t.equal(status, 200, 'said in the report')
    return body.toString()
  }
  t.match(await push(async () => {}), /ng refs\/heads\/main missing necessary objects/, 'git has decided')
  const { collaborators, repositories, tokens } = asAdministrator(store)
  const one = { owner: 'owner', name: 'one' }
  t.match(
    await push(() => collaborators.set(one, writer, 'read')),
    /ng refs\/heads\/main You have read access/,
  )
  t.match(
    await push(() => collaborators.set(one, writer, null)),
    /ng refs\/heads\/main The repository does not/,
  )
  const two = { owner: 'owner', name: 'two' }
  t.match(
    await push(() => repositories.rename(one, two)),
    /ng refs\/heads\/main The repository is called owner\/two now/,
  )
  t.match(await push(() => tokens.revokeAll(writer), 'two'), /ng refs\/heads\/main The token is unknown/)
})

t.test('answers for private and missing repositories are identical', async (t) => {
  const server = await startServer(t)
  await server.createRepository('owner/private', { private: true })
  const stranger = basic('x', await server.createToken('stranger'))
  for (const authorization of [undefined, stranger]) {
    const expected = await answersTo(server, 'owner/private', authorization)
    for (const name of [
      'owner/missing',
      'missing/private',
      'api/x',
      'owner/a%2Fb',
      'owner/a%0Ab',
      'owner/..',
    ])
      t.same(await answersTo(server, name, authorization), expected, name)
    t.match(expected.refs.body, /^[A-Z].+\.\n$/)
    t.equal(expected.refs.headers['content-type'], 'text/plain; charset=utf-8')
    if (!authorization) t.match(expected.refs.headers['www-authenticate'], /^Basic realm=/)
  }
})

t.test('failed credentials count, and a spent budget answers 429', async (t) => {
  const server = await startServer(t, { budget: { limit: 2, window: 300 } })
  await server.createRepository('owner/public')
  const good = basic('x', await server.createToken('owner'))
  const ask = (authorization?: string) =>
    fetch(`${server.url}/owner/public.git${FETCH}`, {
      ...(authorization !== undefined && { headers: { authorization } }),
    })
  for (const uncounted of ['Basic', basic('', '')]) await ask(uncounted)
  for (const status of [401, 401, 429]) t.equal((await ask(basic('owner', 'password'))).status, status)
  const blocked = await ask(good)
  t.equal(blocked.status, 429)
  t.ok(Number(blocked.headers.get('retry-after')) >= 1)
  t.equal((await ask()).status, 200, 'anonymous requests are never blocked')
  t.equal((await server.read('owner/public', 'a'.repeat(40), 'bad')).status, 429, 'the API shares the budget')
})

t.test('the git client reports missing access', async (t) => {
  const server = await startServer(t)
  await server.createRepository('owner/public')
  const checkout = await createCheckout(t, `${server.url}/owner/public.git`)
  const push = (authorization?: string) =>
    tryGit(checkout, ['push', 'origin', 'HEAD:topic'], { ...(authorization && { authorization }) })
  t.match((await push()).stderr, /could not read Username|Authentication failed/)
  t.match((await push(basic('x', await server.createToken('stranger')))).stderr, /403/)
  const unscoped = basic('x', await server.createToken('owner', { scopes: [] }))
  t.match((await push(unscoped)).stderr, /403/)
  const missing = ['ls-remote', `${server.url}/owner/missing.git`]
  t.match((await tryGit(checkout, missing)).stderr, /could not read Username/)
  const stranger = basic('x', await server.createToken('stranger'))
  t.match((await tryGit(checkout, missing, { authorization: stranger })).stderr, /not found/)
})

t.test('only the paths of the smart protocol are served', async (t) => {
  const server = await startServer(t)
  const { path, commits } = await server.createRepository('owner/public')
  await git(path, ['update-server-info'])
  const [id = ''] = commits
  const ask = async (method: string, where: string) => {
    const answer = await fetch(server.url + where, { method, redirect: 'manual' })
    await answer.text()
    const extra = answer.headers.get('allow') ?? answer.headers.get('location')
    return extra === null ? `${answer.status}` : `${answer.status} ${extra}`
  }
  const repository = '/owner/public.git'
  for (const file of [
    '/HEAD',
    '/config',
    '/objects/info/packs',
    '/objects/info/alternates',
    `/objects/${id.slice(0, 2)}/${id.slice(2)}`,
    '/git-upload-archive',
    '/info/refs/',
    '/info/REFS',
    '/info',
  ]) {
    t.equal(await ask('GET', repository + file), '404', file)
    t.equal(await ask('POST', repository + file), '404', file)
  }
  t.equal(await ask('GET', `${repository}/git-upload-pack`), '405 POST')
  t.equal(await ask('PUT', `${repository}/git-receive-pack`), '405 POST')
  t.equal(await ask('POST', `${repository}${FETCH}`), '405 GET, HEAD')
  t.equal(await ask('GET', '/owner/public/git-upload-pack'), '405 POST')
  t.equal(await ask('GET', '//public.git/info/refs'), '404')
  // No repository has a name that ends in `.git`.
  t.equal(await ask('GET', `${repository}.git${FETCH}`), '401')
  t.equal(await ask('POST', `${repository}.git/git-upload-pack`), '401')
  t.equal(await ask('HEAD', repository + FETCH), '200')
  for (const query of ['', '?', '?service=', '?service=git-upload-archive', '?service=upload-pack'])
    t.equal(await ask('GET', `${repository}/info/refs${query}`), '400', query)
  t.equal(await ask('GET', `${repository}${FETCH}&service=git-receive-pack`), '400')
  t.equal(await ask('GET', `${repository}${FETCH}&other=1`), '200')

  const checkout = await createCheckout(t, 'nowhere')
  for (const [index, ending] of ['', '/', '.git', '.git/'].entries()) {
    t.equal(await ask('GET', `/owner/public${ending}${FETCH}`), '200', ending)
    t.equal(await ask('GET', `/owner/missing${ending}${FETCH}`), '401', ending)
    const url = `${server.url}/owner/public${ending}`
    const authorization = basic('x', await server.createToken('owner'))
    const pushed = await tryGit(checkout, ['push', url, `HEAD:refs/heads/b${index}`], { authorization })
    t.match(pushed, { code: 0 }, pushed.stderr)
    t.notMatch(pushed.stderr, 'redirecting')
  }
  const folder = workFolder(t)
  t.match(await git(folder, ['ls-remote', `${server.url}/owner/public`]), id)
})
