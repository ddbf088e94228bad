import assert from 'node:assert/strict'
import { createHash, createSign, generateKeyPairSync } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { parseCidr } from '../../src/http/address.ts'
import { freePort } from '../helpers/free-port.ts'
import {
  attemptsOf,
  callbackOf,
  PUBLIC_URL,
  signInWith,
  startBeside,
  startWithProvider,
} from '../helpers/oidc-sign-in.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const { provider, server } = await startWithProvider(t, { budget: { limit: 10_000, window: 300 } })
const open = () => openPageClient(server.url)
type PageClient = ReturnType<typeof open>

/** Checks that the user has no session. */
async function hasNoSession(t: Test, client: PageClient, what: string) {
  t.equal((await client.get('/settings/tokens')).status, 303, what)
}

/** Counts the requests to the token endpoint while `work` runs. */
async function exchangesDuring(work: () => Promise<unknown>, at = provider): Promise<number> {
  const count = () => at.requests.filter((path) => path === '/token').length
  const before = count()
  await work()
  return count() - before
}

t.test('an answer counts only with the state of an attempt in the same browser', async (t) => {
  const attacker = open()
  const stolen = await callbackOf(attacker, provider, 'mallory')
  const victim = open()
  const exchanged = await exchangesDuring(async () => {
    t.equal((await victim.get(stolen)).status, 401, 'login CSRF: a browser without an attempt')
    await victim.get('/login/oidc')
    const answer = await victim.get(stolen)
    t.match([answer.status, answer.body], [401, /Start again/], 'a browser with another attempt')
    t.equal(attemptsOf(victim).size, 1, 'which remains')
    const [path = '', query] = stolen.split('?')
    for (const [name, value] of [
      ['state', 'x'],
      ['state', null],
      ['iss', 'https://id.example.org'],
      ['code', null],
      ['error', 'access_denied'],
    ] as const) {
      const status = ['iss', 'code'].includes(name) ? 502 : 401
      const forged = new URLSearchParams(query)
      if (value === null) forged.delete(name)
      else forged.set(name, value)
      const client = open()
      for (const cookie of attemptsOf(attacker)) client.cookies.set(...cookie)
      t.equal((await client.get(`${path}?${forged}`)).status, status, `${name}=${value}`)
      await hasNoSession(t, client, 'no session')
    }
  })
  t.equal(exchanged, 0, 'the provider is not asked')
  await hasNoSession(t, victim, 'no session of the attacker in the browser of the victim')
  t.equal((await attacker.get(stolen)).status, 303, 'the answer was good')
})

t.test('an answer works once', async (t) => {
  const client = open()
  const path = await callbackOf(client, provider, 'alice')
  const attempt = attemptsOf(client)
  t.equal((await client.get(path)).status, 303)
  const again = await client.get(path)
  t.same([again.status, again.headers.get('location')], [303, '/'], 'loaded again, it leads on')
  t.equal((await client.get('/settings/tokens')).status, 200)
  const thief = open()
  for (const cookie of attempt) thief.cookies.set(...cookie)
  t.equal((await thief.get(path)).status, 401, 'with a stolen cookie too')
  await hasNoSession(t, thief, 'no session')
})

t.test('the cookie of an attempt holds a secret that its answer does not reveal', async (t) => {
  const started = await open().get('/login/oidc?next=/x')
  const [, secret = ''] =
    /^sign-in-[\w-]{16}=([\w-]{43})\/x; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/.exec(
      started.headers.getSetCookie()[0] ?? '',
    ) ?? []
  t.equal(secret.length, 43)
  const sent = new URL(started.headers.get('location') ?? '').searchParams
  const values = ['state', 'nonce', 'code_challenge'].map((name) => sent.get(name) ?? '')
  t.equal(new Set([secret, ...values]).size, 4)
  for (const value of values) t.match(value, /^[\w-]{43}$/)
  const secure = await startServer(t, { publicUrl: 'https://status.test', oidc: provider.options })
  t.match(
    (await openPageClient(secure.url).get('/login/oidc')).headers.getSetCookie()[0],
    /^__Host-sign-in-[\w-]{16}=[\w-]{43}\/; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  )
})

t.test('a cookie that somebody else has set is no attempt, and leads nowhere else', async (t) => {
  const attempt = async (forge: (cookie: string) => string) => {
    const client = open()
    const path = await callbackOf(client, provider, 'alice', '/x')
    const [cookie = ''] = attemptsOf(client).values()
    client.cookies.clear()
    const forged = forge(cookie)
    const state = createHash('sha256')
      .update(`state ${forged.split('/')[0]}`)
      .digest('base64url')
    client.cookies.set(`sign-in-${state.slice(0, 16)}`, forged)
    return client.get(path.replace(/state=[\w-]+/, `state=${state}`))
  }
  t.equal((await attempt((cookie) => cookie)).headers.get('location'), '/x')
  const exchanged = await exchangesDuring(async () => {
    for (const forge of [
      () => '',
      () => '/x',
      () => `${'x'.repeat(42)}/x`,
      () => `${'x'.repeat(44)}/x`,
      (cookie: string) => cookie.slice(0, 43),
      (cookie: string) => ` ${cookie}`,
    ]) {
      t.equal((await attempt(forge)).status, 401)
    }
  })
  t.equal(exchanged, 0)
  t.equal((await attempt(() => `${'x'.repeat(43)}/x`)).status, 401, 'not the secret of the verifier')
  const longer = open()
  const path = await callbackOf(longer, provider, 'alice')
  for (const [name, value] of attemptsOf(longer)) longer.cookies.set(name, `x${value}`)
  t.equal((await longer.get(path)).status, 401, 'a longer secret')
  for (const next of ['//evil.example', '/\\evil.example', '/.//evil.example'])
    t.equal((await attempt((cookie) => cookie.slice(0, 43) + next)).headers.get('location'), '/')
})

t.test('sign-in returns only to this site', async (t) => {
  for (const [next, location] of [
    ['//evil.example', '/'],
    [`/${'x'.repeat(5000)}`, '/'],
    ['/alice/repo?x=%2F', '/alice/repo?x=%2F'],
  ] as const) {
    const done = await signInWith(open(), provider, 'alice', next)
    t.same([done.status, done.headers.get('location')], [303, location], next.slice(0, 30))
  }
})

t.test('a page after a failed sign-in does not repeat the code', async (t) => {
  const client = open()
  const path = await callbackOf(client, provider, 'alice')
  const code = new URLSearchParams(path.split('?')[1]).get('code') ?? ''
  t.ok(code.length > 20)
  for (const answer of [await open().get(path), await client.get(path.replace('state=', 'state=x'))]) {
    t.equal(answer.status, 401)
    t.notMatch(answer.body, code)
  }
})

/** Creates a key pair of an attacker, or of the provider. */
function createKey(kid: string) {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { kid, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid, alg: 'RS256', use: 'sig' } }
}
const known = createKey('known')
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

interface Forgery {
  header?: object
  claims?: object
  key?: typeof known
  /** The key that the provider publishes. */
  published?: typeof known
  /** What comes with the token. */
  more?: object
}

/**
 * Makes the provider answer with an ID token of our own. Returns the status of the answer to the
 * callback.
 */
async function signInWithToken(
  t: Test,
  { header, claims, key = known, published = known, more }: Forgery,
): Promise<number> {
  const client = open()
  const started = await client.get('/login/oidc')
  const url = started.headers.get('location') ?? ''
  const nonce = new URL(url).searchParams.get('nonce')
  const path = (await provider.signIn(url, 'alice')).replace(PUBLIC_URL, '')
  const iat = Math.floor(Date.now() / 1000)
  const own = { iss: provider.issuer, sub: 'alice', aud: 'commit-status', iat, exp: iat + 300, nonce }
  const payload = { preferred_username: 'alice', ...own, ...claims }
  const data = `${encode({ alg: 'RS256', kid: key.kid, ...header })}.${encode(payload)}`
  const signature = createSign('sha256').update(data).sign(key.privateKey, 'base64url')
  const tokens = { access_token: 'x', token_type: 'Bearer', id_token: `${data}.${signature}`, ...more }
  provider.intercept = (request, response) => {
    if (request.url === '/token') return answer(response, tokens)
    return request.url === '/jwks' && answer(response, { keys: [published.jwk] })
  }
  const done = await client.get(path)
  provider.intercept = null
  if (done.status !== 303) await hasNoSession(t, client, 'no session')
  return done.status
}

function answer(response: ServerResponse, body: unknown, status = 200): true {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  return true
}

// The library is certified. Each of its checks has one case, which shows that it is on.
t.test('only an ID token of the provider for this client and this attempt counts', async (t) => {
  const other = createKey('other')
  const rows: [what: string, forgery: Forgery, status: number][] = [
    ['a good token', {}, 303],
    ['a good token with 2 MiB', { more: { padding: 'x'.repeat(2 * 1024 * 1024) } }, 502],
    ['another client', { claims: { aud: 'another' } }, 502],
    ['another issuer', { claims: { iss: 'https://id.example.org' } }, 502],
    ['another nonce', { claims: { nonce: 'x' } }, 502],
    ['a long subject', { claims: { sub: 'x'.repeat(256) } }, 502],
    ['a subject that is not ASCII', { claims: { sub: 'alice\u0000' } }, 502],
    ['alg none', { header: { alg: 'none' } }, 502],
    ['a key of somebody else', { key: { ...other, kid: 'known' } }, 502],
    ['an expired token', { claims: { exp: Math.floor(Date.now() / 1000) - 60 } }, 502],
    ['rotated keys', { key: other, published: other }, 303],
    ['keys rotated back', {}, 303],
  ]
  for (const [what, forgery, status] of rows) t.equal(await signInWithToken(t, forgery), status, what)
})

t.test('another nonce, or another verifier, gets no session', async (t) => {
  for (const name of ['nonce', 'code_challenge']) {
    const client = open()
    const url = new URL((await client.get('/login/oidc')).headers.get('location') ?? '')
    t.equal(url.searchParams.get('code_challenge_method'), 'S256')
    url.searchParams.set(name, 'x'.repeat(43))
    const back = await provider.signIn(url.href, 'alice')
    t.equal((await client.get(back.replace(PUBLIC_URL, ''))).status, name === 'nonce' ? 502 : 401, name)
    await hasNoSession(t, client, name)
  }
})

t.test('the budget of the address bounds what the provider is asked', async (t) => {
  const limited = await startBeside(t, provider.options, { budget: { limit: 5, window: 300 } })
  const flood = async (how: (client: PageClient) => Promise<string>, count = 40) => {
    const clients = Array.from({ length: count }, () => openPageClient(limited.url))
    const paths = await Promise.all(clients.map(how))
    const answers = await Promise.all(clients.map((client, index) => client.get(paths[index] ?? '')))
    return answers.map(({ status }) => status)
  }
  const byAnotherSite = await flood(async (client) => {
    await client.get('/login/oidc')
    return '/login/callback?code=x&state=y'
  })
  t.same(new Set(byAnotherSite), new Set([401]), 'what another site can cause is not counted')
  for (const error of ['invalid_grant', 'invalid_request']) {
    const counting = await startBeside(t, provider.options, { budget: { limit: 3, window: 300 } })
    provider.intercept = ({ url }, response) => url === '/token' && answer(response, { error }, 400)
    const answers = []
    for (let index = 0; index < 5; index++) {
      const client = openPageClient(counting.url)
      answers.push((await client.get(await callbackOf(client, provider, 'alice'))).status)
    }
    provider.intercept = null
    t.same(answers, [401, 401, 401, 429, 429], `a code that the provider refuses with ${error} counts`)
  }
  let statuses: number[] = []
  const exchanged = await exchangesDuring(async () => {
    statuses = await flood(async (client) => {
      const started = await client.get('/login/oidc')
      const state = new URL(started.headers.get('location') ?? '').searchParams.get('state')
      return `/login/callback?code=forged&state=${state}&iss=${encodeURIComponent(provider.issuer)}`
    })
  })
  t.equal(statuses.filter((status) => status === 401).length, 5)
  t.equal(statuses.filter((status) => status === 429).length, 35)
  t.equal(exchanged, 5)
  const blocked = openPageClient(limited.url)
  const path = await callbackOf(blocked, provider, 'alice')
  const unasked = await exchangesDuring(async () => {
    t.equal((await blocked.get(path)).status, 429)
  })
  t.equal(unasked, 0)
  t.equal((await blocked.get('/login')).status, 200)
})

t.test('a provider that failed is left alone for a while, whatever strangers do', async (t) => {
  const failing = await startBeside(t, provider.options, { budget: { limit: 3, window: 300 } })
  const strangers: [PageClient, string][] = []
  for (let index = 0; index < 12; index++) {
    const stranger = openPageClient(failing.url)
    strangers.push([stranger, await callbackOf(stranger, provider, 'alice')])
  }
  let clock = performance.now()
  t.capture(performance, 'now', () => clock)
  const arrived = Promise.withResolvers<ServerResponse>()
  provider.intercept = ({ url }, response) => {
    if (url !== '/token') return false
    provider.intercept = (request, response) => request.url === '/token' && answer(response, {}, 502)
    arrived.resolve(response)
    return true
  }
  t.teardown(() => {
    provider.intercept = null
  })
  const proceed = async () => {
    const [stranger, path] = strangers.pop() ?? assert.fail()
    return (await stranger.get(path)).status
  }

  const early = proceed()
  const held = await arrived.promise
  t.equal(await proceed(), 503)
  answer(held, { error: 'invalid_grant' }, 400)
  t.equal(await early, 401, 'the provider has answered what came before')
  const attack = async () => {
    for (let index = 0; index < 2; index++) t.equal(await proceed(), 503)
    const stranger = openPageClient(failing.url)
    t.equal((await stranger.get('/login/oidc')).status, 503)
    t.equal((await stranger.get('/login/callback?code=x&state=y')).status, 401)
    t.equal((await stranger.get('/login/signed-out')).headers.get('location'), '/')
  }
  t.equal(await exchangesDuring(attack), 0, 'an answer to an earlier request does not end the pause')
  clock += 4_999
  t.equal(await exchangesDuring(attack), 0)
  clock += 1
  t.equal(await exchangesDuring(attack), 1, 'attempts do not prolong it, and one failure begins another')
  clock += 4_999
  t.equal(await exchangesDuring(attack), 0)
  clock += 1
  provider.intercept = null
  t.equal((await signInWith(openPageClient(failing.url), provider, 'alice')).status, 303)

  const readings = () => provider.requests.filter((path) => path.endsWith('/openid-configuration')).length
  const before = readings()
  for (let index = 0; index < 3; index++) {
    const stranger = openPageClient(failing.url)
    const path = await callbackOf(stranger, provider, 'alice')
    t.equal((await stranger.get(path.replace(/iss=[^&]+/, 'iss=another'))).status, 502)
  }
  t.equal(readings(), before, 'not each error reads the metadata again')
  clock += 5_000
  t.equal((await openPageClient(failing.url).get('/login/oidc')).status, 303)
  t.equal(readings(), before + 1)
})

t.test('refusals are bounded by the budget too', async (t) => {
  const oidc = { ...provider.options, requiredClaim: { name: 'groups', value: 'none has it' } }
  const limited = await startBeside(t, oidc, { budget: { limit: 3, window: 300 } })
  const statuses = []
  for (let index = 0; index < 5; index++)
    statuses.push((await signInWith(openPageClient(limited.url), provider, 'alice')).status)
  t.same(statuses, [403, 403, 403, 429, 429])
})

/** Starts a server whose log is collected. */
async function startLogged(t: Test, oidc = provider.options) {
  const lines: string[] = []
  const logger = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) })
  return { lines, logged: await startBeside(t, oidc, { logger }) }
}

/** Returns the metadata that the provider publishes. */
async function readMetadata(of = provider): Promise<Record<string, unknown>> {
  const found = await fetch(`${of.issuer}/.well-known/openid-configuration`)
  // The tests that change them would fail if they were anything else.
  return (await found.json()) as Record<string, unknown>
}

/** What a provider answers wrongly, and the answer of the server. */
interface WrongAnswer {
  what: string
  /** Path at the provider. */
  path: string
  /** Default: its own answer. */
  respond?: (response: ServerResponse) => void
  /** Changes the query with which the browser comes back. */
  back?: Record<string, string>
  status?: number
  page?: RegExp
  log: RegExp
}

const AN_ADMINISTRATOR = /do not fit together\. An administrator must look/
const AGAIN = /does not answer as it should\. Try again in a few seconds/

t.test(
  'what a provider answers wrongly is on the page and in one line of the log, without secrets',
  async (t) => {
    const { issuer } = provider
    const tokens = { access_token: 'secret-text', token_type: 'Bearer' }
    const more = { error_description: 'secret-text' }
    const found = await fetch(`${issuer}/.well-known/openid-configuration`)
    // The tests below would fail if it were anything else.
    const metadata = (await found.json()) as Record<string, unknown>
    const discovery = '/.well-known/openid-configuration'
    const withError = (error: string, status: number) => (response: ServerResponse) =>
      answer(response, { ...more, error }, status)
    const withMetadata = (wrong: object) => (response: ServerResponse) =>
      answer(response, { ...metadata, ...wrong })
    const withIdToken =
      (claims: object, header: object = {}) =>
      (response: ServerResponse) => {
        const iat = Math.floor(Date.now() / 1000)
        const own = {
          iss: issuer,
          sub: 'secret-text',
          aud: 'commit-status',
          iat,
          exp: iat + 300,
          nonce: 'secret-text',
        }
        const id_token = `${encode({ alg: 'RS256', ...header })}.${encode({ ...own, ...claims })}.secret-text`
        answer(response, { ...tokens, id_token })
      }
    const token = { path: '/token' }
    const refused = { path: '', status: 401 }
    const rows: WrongAnswer[] = [
      {
        what: 'our secret is wrong',
        ...token,
        respond: withError('invalid_client', 401),
        log: /\/token, HTTP 401 application\/json, error invalid_client/,
      },
      {
        what: 'our secret is wrong, with a challenge',
        ...token,
        respond: (response) => {
          response.setHeader('www-authenticate', 'Basic realm="x"')
          withError('invalid_client', 401)(response)
        },
        log: /error invalid_client/,
      },
      {
        what: 'our client may not',
        ...token,
        respond: withError('unauthorized_client', 400),
        log: /error unauthorized_client/,
      },
      {
        what: 'an unknown code',
        ...token,
        respond: withError('invalid_grant', 400),
        status: 401,
        page: /refused the sign-in \(invalid_grant\)\. Start again/,
        log: /refused the sign-in, invalid_grant/,
      },
      {
        what: 'a server error in words',
        ...token,
        respond: withError('server_error', 400),
        status: 503,
        page: AGAIN,
        log: /error server_error/,
      },
      {
        what: 'too many requests',
        ...token,
        respond: withError('rate_limited', 429),
        status: 503,
        page: AGAIN,
        log: /HTTP 429/,
      },
      {
        what: 'an error that is no code',
        ...token,
        respond: withError('secret-text '.repeat(9), 400),
        log: /HTTP 400/,
      },
      {
        what: 'HTML',
        ...token,
        respond: (response) =>
          response.setHeader('content-type', 'text/html; charset=utf-8').end('<p>secret-text'),
        log: /HTTP 200 text\/html, .*unexpected response content-type/,
      },
      {
        what: 'broken JSON',
        ...token,
        respond: (response) => response.setHeader('content-type', 'application/json').end('{"secret-text'),
        log: /failed to parse/,
      },
      { what: 'no ID token', ...token, respond: (response) => answer(response, tokens), log: /id_token/ },
      {
        what: 'no JWT',
        ...token,
        respond: (response) => answer(response, { ...tokens, id_token: 'secret-text' }),
        log: /Invalid JWT/,
      },
      {
        what: 'HS256',
        ...token,
        respond: withIdToken({}, { alg: 'HS256' }),
        log: /signed with \\"HS256\\", expected \[\\"RS256\\"/,
      },
      {
        what: 'an issuer with a slash',
        ...token,
        respond: withIdToken({ iss: `${issuer}/` }),
        log: new RegExp(`iss is \\\\"${issuer}/\\\\", expected \\\\"${issuer}\\\\"`),
      },
      {
        what: 'another audience',
        ...token,
        respond: withIdToken({ aud: 'another' }),
        log: /aud is \\"another\\", expected \\"commit-status\\"/,
      },
      {
        what: 'no subject',
        ...token,
        respond: withIdToken({ sub: undefined }),
        log: /JWT \\"sub\\" \(subject\) claim missing/,
      },
      { what: 'another nonce', ...token, respond: withIdToken({}), log: /nonce/ },
      {
        what: 'a clock that is behind',
        ...token,
        respond: withIdToken({ exp: 1 }),
        log: /\(expiration time\) claim value/,
      },
      {
        what: 'a closed connection',
        ...token,
        respond: (response) => response.destroy(),
        status: 503,
        page: AGAIN,
        log: /UND_ERR_SOCKET|ECONNRESET/,
      },
      {
        what: 'another person',
        path: '/me',
        respond: (response) => answer(response, { sub: 'secret-text' }),
        log: /\/me, .*\\"sub\\" property value/,
      },
      {
        what: 'metadata of another issuer',
        path: discovery,
        respond: withMetadata({ issuer: `${issuer}/realms/x` }),
        log: new RegExp(`issuer is \\\\"${issuer}/realms/x\\\\", expected \\\\"${issuer}/\\\\"`),
      },
      {
        what: 'no metadata',
        path: discovery,
        respond: (response) => response.writeHead(404).end('secret-text'),
        log: /openid-configuration, HTTP 404/,
      },
      {
        what: 'no way to send the secret',
        path: discovery,
        respond: withMetadata({ token_endpoint_auth_methods_supported: ['private_key_jwt'] }),
        log: /neither client_secret_basic nor client_secret_post/,
      },
      {
        what: 'an answer of another issuer',
        path: '',
        back: { iss: `${issuer}/` },
        log: new RegExp(`iss is \\\\"${issuer}/\\\\", expected \\\\"${issuer}\\\\"`),
      },
      {
        what: 'cancelled',
        ...refused,
        back: { error: 'access_denied' },
        page: /was cancelled, or .* does not permit it \(access_denied\)/,
        log: /refused the sign-in, access_denied/,
      },
      {
        what: 'a refusal',
        ...refused,
        back: { error: 'server_error' },
        page: /refused the sign-in \(server_error\)\. Try again/,
        log: /refused the sign-in, server_error/,
      },
      {
        what: 'a refusal of the client',
        ...refused,
        back: { error: 'invalid_scope' },
        page: /refused the sign-in \(invalid_scope\)\. An administrator must look/,
        log: /refused the sign-in, invalid_scope/,
      },
      {
        what: 'a refusal without a code',
        ...refused,
        back: { error: 'secret-text' },
        page: /refused the sign-in/,
        log: /an error that is no code/,
      },
    ]
    for (const { what, path, respond, back = {}, status = 502, page = AN_ADMINISTRATOR, log } of rows) {
      // One for each, because it logs one such line in five seconds.
      const { lines, logged } = await startLogged(t)
      const client = openPageClient(logged.url)
      const wrong = (request: IncomingMessage, response: ServerResponse) => {
        if (respond === undefined || request.url !== path) return false
        respond(response)
        return true
      }
      if (path === discovery) provider.intercept = wrong
      const started = await client.get('/login/oidc')
      let done = started
      if (path !== discovery) {
        const callback = new URL(await provider.signIn(started.headers.get('location') ?? '', 'garbled'))
        for (const [name, value] of Object.entries({ ...back, error_description: 'secret-text' }))
          callback.searchParams.set(name, value)
        provider.intercept = wrong
        done = await client.get(callback.pathname + callback.search)
        t.equal(attemptsOf(client).size, 0, 'the attempt is over')
      }
      provider.intercept = null
      t.equal(done.status, status, what)
      t.match(done.body, page, what)
      t.equal(done.headers.get('retry-after'), status === 503 ? '2' : null)
      await hasNoSession(t, client, what)
      t.equal(await logged.store.users.find('garbled'), undefined)
      const told = lines.filter((line) => line.includes('OpenID Connect provider: '))
      t.equal(told.length, 1, `${what}: one line`)
      t.match(told[0], log, what)
      t.notMatch(lines.join('') + done.body, /secret-text|code=|state=|\beyJ/, what)
      t.notMatch(lines.join(''), provider.options.clientSecret, what)
    }
  },
)

t.test('a sign-in that is cancelled costs the address nothing', async (t) => {
  const limited = await startBeside(t, provider.options, { budget: { limit: 3, window: 300 } })
  const token = await limited.createToken('machine')
  const exchanged = await exchangesDuring(async () => {
    for (let index = 0; index < 30; index++) {
      const client = openPageClient(limited.url)
      const started = await client.get('/login/oidc?next=/x')
      const state = new URL(started.headers.get('location') ?? '').searchParams.get('state')
      const error = index % 2 === 0 ? 'access_denied' : 'server_error'
      const answered = await client.get(`/login/callback?error=${error}&state=${state}`)
      t.equal(answered.status, 401)
      t.match(answered.body, 'href="/login/oidc?next=%2Fx"', 'and returns to the same page')
    }
  })
  t.equal(exchanged, 0)
  t.match(await limited.call('GET', '/api/v1/user', { token }), { status: 404 }, 'no 429')
  t.equal((await signInWith(openPageClient(limited.url), provider, 'alice')).status, 303)
})

t.test('tabs sign in side by side, whatever other pages send', async (t) => {
  const client = open()
  const tabs: string[] = []
  for (let tab = 0; tab < 7; tab++) tabs.push(await callbackOf(client, provider, 'alice', `/tab/${tab}`))
  t.equal(attemptsOf(client).size, 5)
  t.equal((await client.get('/login/callback?error=access_denied&state=x')).status, 401)
  t.equal((await client.get('/login/callback')).status, 401)
  const ends = []
  for (const path of tabs.slice(2).reverse()) ends.push((await client.get(path)).headers.get('location'))
  t.same(ends, ['/tab/6', '/tab/5', '/tab/4', '/tab/3', '/tab/2'])
  t.equal((await client.get(tabs[1] ?? '')).headers.get('location'), '/', 'given up, but signed in')
  t.equal((await open().get(tabs[0] ?? '')).status, 401)
  t.equal((await client.get('/settings/tokens')).status, 200)

  const long = open()
  const next = `/tab?${'/'.repeat(900)}`
  for (let tab = 0; tab < 5; tab++) await callbackOf(long, provider, 'alice', next)
  t.ok(long.cookieHeader().length < 4_096, 'each takes three bytes for a slash')
})

t.test('the secret is sent as the provider accepts it', async (t) => {
  const metadata = await readMetadata()
  for (const [methods, header] of [
    [['client_secret_post', 'private_key_jwt'], false],
    [['client_secret_post', 'client_secret_basic'], true],
    [undefined, true],
  ] as const) {
    const fresh = await startBeside(t, provider.options)
    let hasHeader: boolean | undefined
    provider.intercept = (request, response) => {
      if (request.url === '/token') hasHeader = request.headers.authorization !== undefined
      if (!request.url?.startsWith('/.well-known/')) return false
      return answer(response, { ...metadata, token_endpoint_auth_methods_supported: methods })
    }
    await signInWith(openPageClient(fresh.url), provider, 'alice')
    provider.intercept = null
    t.equal(hasHeader, header, `${methods}`)
  }
})

t.test('metadata that are garbage: 502', async (t) => {
  const metadata = await readMetadata()
  const garbage = [
    { issuer: 'https://id.example.org' },
    { token_endpoint: undefined },
    { scopes_supported: 5 },
  ]
  for (const wrong of [...garbage, {}]) {
    const fresh = await startBeside(t, provider.options)
    provider.intercept = (_request, response) => answer(response, { ...metadata, ...wrong })
    const { status } = await openPageClient(fresh.url).get('/login/oidc')
    provider.intercept = null
    t.equal(status, Object.keys(wrong).length > 0 ? 502 : 303, JSON.stringify(wrong))
  }
})

/**
 * What waits most of its time waits beside the others, each with a provider of its own. All tests below
 * are such ones.
 */
t.jobs = 4
const testBeside = (
  name: string,
  work: (t: Test, of: Awaited<ReturnType<typeof startWithProvider>>) => Promise<void>,
) => t.test(name, { buffered: true }, async (t) => work(t, await startWithProvider(t)))

testBeside('metadata are read again after a pause when they lead nowhere', async (t, { provider }) => {
  const metadata = await readMetadata(provider)
  const port = await freePort()
  const fresh = await startBeside(t, provider.options)
  const client = openPageClient(fresh.url)
  const moved = { token_endpoint: `http://127.0.0.1:${port}/token`, end_session_endpoint: undefined }
  const asked = () => provider.requests.filter((path) => path.startsWith('/.well-known/')).length
  const before = asked()
  provider.intercept = (request, response) =>
    request.url?.startsWith('/.well-known/') === true && answer(response, { ...metadata, ...moved })
  const path = await callbackOf(client, provider, 'alice')
  t.equal((await client.get('/login/signed-out')).headers.get('location'), '/', 'no page for signing out')
  provider.intercept = null
  t.equal(asked() - before, 1, 'metadata are kept')
  t.equal((await client.get(path)).status, 503, 'nobody listens where the token endpoint was')
  await pause(5_000)
  t.equal((await signInWith(client, provider, 'alice')).status, 303, 'they are read again')
  t.equal(asked() - before, 2)
})

testBeside('the requests of a sign-in have one deadline', async (t, { provider, server }) => {
  const client = openPageClient(server.url)
  const path = await callbackOf(client, provider, 'alice')
  const fresh = openPageClient((await startBeside(t, provider.options)).url)
  for (const cookie of attemptsOf(client)) fresh.cookies.set(...cookie)
  const metadata = await readMetadata(provider)
  provider.intercept = (request, response) => {
    if (request.url !== '/token') setTimeout(() => answer(response, metadata), 4_000)
    return true
  }
  const began = performance.now()
  t.equal((await fresh.get(path)).status, 503)
  const elapsed = performance.now() - began
  t.ok(elapsed > 9_000 && elapsed < 25_000, `${Math.round(elapsed)} ms`)
  provider.intercept = null
  provider.server.closeAllConnections()
})

testBeside(
  'a provider that is away or slow: sign-in says so, and nothing else waits',
  async (t, { provider, server }) => {
    const port = await freePort()
    const away = { ...provider.options, issuer: `http://127.0.0.1:${port}/` }
    const { lines, logged } = await startLogged(t, away)
    const { commits } = await logged.createRepository('acme/repo')
    const token = await logged.createToken('acme')
    const client = openPageClient(logged.url)
    t.match((await client.get('/login')).body, 'Sign in with')
    const refused = await client.get('/login/oidc')
    t.match([refused.status, refused.headers.get('retry-after')], [503, '2'])
    t.match(lines.join(''), /OpenID Connect provider: .*ECONNREFUSED/)
    t.equal((await client.get('/login/signed-out')).headers.get('location'), '/')

    const trustedProxies = [parseCidr('127.0.0.1')]
    const beside = await startBeside(t, provider.options, { trustedProxies })
    await createAccount(beside, 'bob')
    const early = openPageClient(beside.url)
    const callback = await callbackOf(early, provider, 'alice')
    const colleague = openPageClient(beside.url)
    const theirs = await callbackOf(colleague, provider, 'grace')
    /**
     * With the two above as many as wait for passwords at a time, each from an address of its own.
     */
    const strangers = await Promise.all(
      Array.from({ length: 62 }, async (_, index) => {
        const stranger = openPageClient(beside.url)
        const started = await stranger.get('/login/oidc')
        const state = new URL(started.headers.get('location') ?? '').searchParams.get('state')
        const path = `/login/callback?code=forged&state=${state}&iss=${encodeURIComponent(provider.issuer)}`
        return () => stranger.get(path, { headers: { 'x-forwarded-for': `192.0.2.${index}` } })
      }),
    )
    const began = performance.now()
    await openPageClient(server.url).get('/login/oidc')
    provider.intercept = () => true
    const held = early.get(callback)
    const alongside = colleague.get(theirs)
    const attacks = strangers.map((attack) => attack())
    const discovering = openPageClient(server.url).get('/login/oidc')
    let isHeld = true
    void held.finally(() => {
      isHeld = false
    })
    for (let index = 0; index < 5; index++)
      t.equal((await logged.report('acme/repo', commits[0] ?? '', { state: 'success' }, token)).status, 201)
    t.equal((await openPageClient(beside.url).signIn('bob')).status, 303, 'a password is compared meanwhile')
    t.ok(isHeld, 'the sign-ins with the provider are still waiting')
    for (const attack of attacks) t.equal((await attack).status, 503)
    t.equal((await discovering).status, 303, 'the metadata are known')
    t.equal((await held).status, 503)
    t.equal((await alongside).status, 503, 'sign-ins of one address wait side by side')
    const elapsed = performance.now() - began
    t.ok(elapsed > 9_000 && elapsed < 25_000, `${Math.round(elapsed)} ms`)
    provider.server.closeAllConnections()
  },
)

testBeside(
  'an answer of the provider that does not end: sign-in does, and works again later',
  async (t, { provider }) => {
    provider.intercept = (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{')
      return true
    }
    const fresh = openPageClient((await startBeside(t, provider.options)).url)
    const again = performance.now()
    let asked = 0
    const both = await Promise.all([fresh.get('/login/oidc'), fresh.get('/login/oidc')])
    provider.intercept = (_request, response) => {
      asked++
      response.writeHead(503).end()
      return true
    }
    await Promise.all(Array.from({ length: 20 }, () => fresh.get('/login/oidc')))
    for (let index = 0; index < 5; index++) t.equal((await fresh.get('/login/oidc')).status, 503)
    const most = 3 + (performance.now() - again) / 5_000
    t.ok(asked <= most, `strangers caused ${asked} requests, one in 5 s`)
    provider.intercept = null
    t.same(
      both.map(({ status }) => status),
      [503, 503],
    )
    t.ok(performance.now() - again < 40_000, 'an endless answer ends too')
    provider.server.closeAllConnections()

    await pause(5_000)
    t.equal((await signInWith(fresh, provider, 'alice')).status, 303, 'sign-in works again without a restart')
  },
)
