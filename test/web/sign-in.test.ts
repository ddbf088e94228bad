import { createHook } from 'node:async_hooks'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { createToken } from '../../src/auth/token.ts'
import { parseCidr } from '../../src/http/address.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { signInForm } from '../helpers/held-request.ts'
import { createAccount, csrfOf, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { addToken } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { dial } from '../http/connections.ts'

async function setUp(t: Test, options: Parameters<typeof startServer>[1] = {}) {
  const server = await startServer(t, options)
  await createAccount(server, 'Alice')
  return { server, client: openPageClient(server.url) }
}

t.test('a user signs in, continues to the requested page, and signs out', async (t) => {
  const { server, client } = await setUp(t)
  const asked = await client.get('/settings/tokens')
  t.equal(asked.status, 303)
  t.equal(asked.headers.get('location'), '/login?next=%2Fsettings%2Ftokens')

  const form = await client.get('/login?next=%2Fsettings%2Ftokens')
  t.match(form.body, 'name="next" value="/settings/tokens"')
  const signedIn = await client.signIn('aLICE', PASSWORD, '/settings/tokens')
  t.equal(signedIn.status, 303)
  t.equal(signedIn.headers.get('location'), '/settings/tokens')
  const page = await client.get('/settings/tokens')
  t.equal(page.status, 200)
  t.match(page.body, '<summary>Alice</summary>', 'the name as it was created')
  t.equal(
    (await client.get('/login?next=/docs')).headers.get('location'),
    '/docs',
    'a signed-in user is redirected',
  )

  const cookie = client.cookieHeader()
  t.equal((await client.submit('/', '/logout')).headers.get('location'), '/')
  t.equal(client.cookies.size, 0, 'the cookie is deleted')
  t.equal((await client.get('/settings/tokens')).status, 303)
  t.equal(
    (await client.get('/settings/tokens', { headers: { cookie } })).status,
    303,
    'the old cookie is invalid',
  )

  await asAdministrator(server.store).users.link('Alice', {
    issuer: 'https://id.example.org',
    subject: 'alice',
  })
  t.equal((await client.signIn('alice')).status, 303, 'a linked user, since the server has no provider')
})

t.test('a client that has disconnected does not wait to sign in', async (t) => {
  const budget = { limit: 1, window: 300 }
  const { server, client } = await setUp(t, { budget })
  const csrf = csrfOf((await client.get('/login')).body)
  const { headers, body } = signInForm({ cookie: client.cookieHeader(), csrf }, 'alice', 'wrong horse')
  const attempt = await server.store.failures.reserve('127.0.0.1', budget)
  const first = client.send('POST', '/login', { form: { csrf, name: 'alice', password: PASSWORD } })
  const socket = await dial(t, server.url)
  const lines = Object.entries({ host: 'test', 'content-length': body.length, ...headers })
  socket.end(`POST /login HTTP/1.1\r\n${lines.map((line) => `${line.join(': ')}\r\n`).join('')}\r\n${body}`)
  t.match(await text(socket), 'HTTP/1.1 400 ')
  await attempt?.release()
  t.equal((await first).status, 303, 'one that waits for the attempt before it')
})

t.test('signing in starts a session with a new secret and ends the previous one', async (t) => {
  const { client } = await setUp(t)
  await client.get('/login')
  const planted = client.cookieHeader()
  await client.signIn('alice')
  const first = client.cookieHeader()
  t.not(first, planted)
  t.equal((await client.get('/settings/tokens', { headers: { cookie: planted } })).status, 303)
  t.equal((await client.get('/settings/tokens', { headers: { cookie: first } })).status, 200)

  const csrf = csrfOf((await client.get('/')).body)
  await client.send('POST', '/login', { form: { csrf, name: 'alice', password: PASSWORD } })
  t.not(client.cookieHeader(), first)
  t.equal((await client.get('/settings/tokens', { headers: { cookie: first } })).status, 303)
  t.equal((await client.get('/settings/tokens')).status, 200)
})

t.test('every failed sign-in gets the same answer', async (t) => {
  const { server, client } = await setUp(t)
  await server.createUser('robot')
  const attempts = {
    'wrong password': ['alice', 'wrong horse'],
    'empty password': ['alice', ''],
    'password too long': ['alice', 'x'.repeat(1025)],
    'unknown user': ['nobody', PASSWORD],
    'no user name': ['', PASSWORD],
    'user without a password': ['robot', PASSWORD],
    'user without a password, none given': ['robot', ''],
    'name that cannot be one': ['a\u0000b', PASSWORD],
    'name with a letter that is only like it': ['\u212Aim', PASSWORD],
    'markup for a name': ['"><script>alert(1)</script>', PASSWORD],
    'token for a password': ['robot', await server.createToken('robot')],
  }
  const bodies = new Set<string>()
  for (const [what, [name = '', password = '']] of Object.entries(attempts)) {
    const { status, headers, body } = await client.signIn(name, password)
    t.equal(status, 401, what)
    t.equal(headers.has('www-authenticate'), false, 'no browser dialog')
    t.equal(headers.get('cache-control'), 'no-store')
    t.match(body, 'Wrong name or password.', what)
    t.notMatch(body, password === '' ? '\u0000' : password, 'the password is not sent back')
    t.notMatch(body, '<script>alert', what)
    bodies.add(body.replace(/(name="(csrf|name)" value=)"[^"]*"/g, '$1'))
  }
  t.equal(bodies.size, 1)
})

t.test(
  'a password is hashed for an unknown name too, so that it takes as long as a wrong password',
  async (t) => {
    const { server, client } = await setUp(t, { budget: { limit: 1000, window: 300 } })
    await server.createUser('robot')
    let hashes = 0
    // Node reports each task that it hands to another thread.
    const hook = createHook({
      init(_id, type) {
        if (type === 'ARGON2REQUEST') hashes++
      },
    }).enable()
    t.teardown(() => hook.disable())
    const names = ['alice', 'robot', 'nobody']
    for (const [index, name] of names.entries()) {
      t.equal((await client.signIn(name, 'wrong horse')).status, 401)
      t.equal(hashes, index + 1, `one hash for ${name}`)
    }
  },
)

t.test('a form that was not issued to this user is refused, and not counted', async (t) => {
  const { server, client } = await setUp(t, { budget: { limit: 1, window: 300 } })
  const { id } = await addToken(server.store, await server.createUser('alice'))
  const stranger = openPageClient(server.url)
  const foreign = csrfOf((await stranger.get('/login')).body)
  await client.signIn('alice')
  const forms = ['/login', '/logout', '/settings/tokens', `/settings/tokens/${id}/revoke`]
  for (const action of forms) {
    for (const csrf of [undefined, '', 'x', foreign]) {
      const form = { name: 'alice', password: PASSWORD, expiry: 'none', ...(csrf !== undefined && { csrf }) }
      const { status, body } = await client.send('POST', action, { form })
      t.equal(status, 403, `${action} ${csrf}`)
      t.match(body, 'This form has expired')
    }
  }
  const cookieless = openPageClient(server.url)
  const csrf = csrfOf((await stranger.get('/login')).body)
  const sent = await cookieless.send('POST', '/login', { form: { csrf, name: 'alice', password: PASSWORD } })
  t.equal(sent.status, 403, 'a form without its cookie')

  t.equal((await client.get('/settings/tokens')).status, 200, 'still signed in')
  t.equal((await server.store.tokens.list(1)).length, 1, 'no token was created or revoked')
  t.equal(
    (await server.call('GET', '/api/v1/repos/a/b/commits/c/statuses', { token: createToken() })).status,
    401,
  )
})

t.test('a spent budget is 429 before the form is read; sessions and the form still work', async (t) => {
  const { server, client } = await setUp(t, { budget: { limit: 2, window: 300 } })
  const signedIn = openPageClient(server.url)
  await signedIn.signIn('alice')
  t.equal((await client.signIn('alice', 'wrong')).status, 401)
  t.equal((await client.signIn('nobody')).status, 401)

  const blocked = await client.signIn('alice')
  t.equal(blocked.status, 429, 'the right password too')
  t.match(blocked.headers.get('retry-after'), /^[1-9]\d*$/)
  t.match(blocked.headers.get('content-type'), 'text/html')
  const unread = await client.send('POST', '/login', { headers: { 'content-type': 'text/plain' } })
  t.equal(unread.status, 429, 'before its type is checked')
  t.equal((await client.get('/login')).status, 200)
  t.equal((await signedIn.get('/settings/tokens')).status, 200)
  const token = await server.createToken('alice')
  t.equal((await server.call('GET', '/api/v1/repos/a/b/commits/c/statuses', { token })).status, 429)
})

t.test('the cookie is limited to this site, and to https where it is used', async (t) => {
  const { server } = await setUp(t)
  const behind = await startServer(t, { trustedProxies: [parseCidr('127.0.0.1')] })
  const secure = await startServer(t, { publicUrl: 'https://status.example.org' })
  const https = { 'x-forwarded-proto': 'https' }
  const plain = /^session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/
  const safe = /^__Host-session=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax$/
  for (const [what, { app }, headers, expected] of [
    ['plain http', server, {}, plain],
    ['a header of somebody else', server, https, plain],
    ['https at a trusted proxy', behind, https, safe],
    ['http at a trusted proxy', behind, { 'x-forwarded-proto': 'http' }, plain],
    ['https at the last of several proxies', behind, { 'x-forwarded-proto': 'http, https' }, safe],
    ['http at the last of several proxies', behind, { 'x-forwarded-proto': 'https,http' }, plain],
    ['an https address', secure, {}, safe],
  ] as const) {
    const { headers: answer } = await app.inject({ url: '/login', headers })
    t.match(answer['set-cookie'], expected, what)
  }
  const planted = { cookie: 'session=short' }
  const { headers: replaced } = await server.app.inject({ url: '/login', headers: planted })
  t.match(replaced['set-cookie'], plain, 'a cookie of another form is replaced')
  t.equal((await server.app.inject('/')).headers['set-cookie'], undefined, 'no cookie without a form')
  const malformed = await server.app.inject({ url: '/', headers: { cookie: 'session=%zz' } })
  t.equal(malformed.statusCode, 200, 'as without a cookie')
})

t.test('sessions expire', async (t) => {
  const { server, client } = await setUp(t)
  const DAY = 24 * 3_600_000
  let now = Date.now()
  t.capture(Date, 'now', () => now)
  for (const [what, days, visits] of [
    ['idle', 7, 0],
    ['absolute', 1, 30],
  ] as const) {
    await client.signIn('alice')
    for (let visit = 0; visit < visits; visit++) {
      t.equal((await client.get('/settings/tokens')).status, 200, what)
      now += days * DAY
    }
    now += (visits === 0 ? days : 0) * DAY
    const { status, headers } = await client.get('/settings/tokens')
    t.equal(status, 303, what)
    t.match(headers.get('location'), /^\/login/)

    const csrf = csrfOf((await client.get('/login')).body)
    const sent = await client.send('POST', '/settings/tokens', {
      form: { csrf, name: 'late', expiry: 'none' },
    })
    t.equal(sent.status, 303, 'a form of an expired session redirects to the sign-in')
    t.match(sent.headers.get('location'), /^\/login/)
  }
  t.equal((await server.store.tokens.list(1)).length, 0)
})

t.test('deleting a user ends the sessions', async (t) => {
  const { server, client } = await setUp(t)
  await client.signIn('alice')
  await asAdministrator(server.store).users.delete('alice')
  t.equal((await client.get('/settings/tokens')).status, 303)
})

t.test('the API ignores sessions, and pages ignore tokens', async (t) => {
  const { server, client } = await setUp(t)
  const { commits } = await server.createRepository('alice/secret', { private: true })
  const [sha = ''] = commits
  const token = await server.createToken('alice')
  await client.signIn('alice')
  const path = `/api/v1/repos/alice/secret/commits/${sha}/statuses`
  const cookie = client.cookieHeader()
  t.equal((await server.call('GET', path, { token })).status, 200)
  t.equal((await server.call('GET', path, { headers: { cookie } })).status, 401)
  const report = { headers: { cookie }, body: { state: 'success' } }
  t.equal((await server.call('POST', `/api/v1/repos/alice/secret/statuses/${sha}`, report)).status, 401)

  t.equal((await client.get('/alice/secret')).status, 200)
  const basic = Buffer.from(`alice:${token}`).toString('base64')
  for (const authorization of [`Bearer ${token}`, `token ${token}`, `Basic ${basic}`]) {
    for (const page of ['/alice/secret', '/settings/tokens']) {
      const { status } = await openPageClient(server.url).get(page, { headers: { authorization } })
      t.equal(status, 303, `${page} ${authorization.slice(0, 6)}`)
    }
  }
  for (const name of ['session', '__Host-session']) {
    const { status } = await openPageClient(server.url).get('/alice/secret', {
      headers: { cookie: `${name}=${token}` },
    })
    t.equal(status, 303, 'a token is no session cookie')
  }
})

t.test('a forged host appears in no link and no redirect', async (t) => {
  const { server, client } = await setUp(t)
  await server.createRepository('alice/rocket')
  await client.signIn('alice')
  const headers = { host: 'evil.example', 'x-forwarded-host': 'evil.example', cookie: client.cookieHeader() }
  for (const url of ['/', '/docs', '/alice/rocket', '/settings/tokens', '/alice/none', '/none']) {
    const { body } = await server.app.inject({ url, headers: { ...headers, accept: 'text/html' } })
    t.notMatch(body, /(href|src|action)="[^"]*evil/, url)
  }
  const { headers: answer } = await server.app.inject({
    url: '/settings/tokens',
    headers: { host: 'evil.example' },
  })
  t.equal(answer.location, '/login?next=%2Fsettings%2Ftokens')
})
