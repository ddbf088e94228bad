import { createServer } from 'node:http'
import { join } from 'node:path'
import { sql } from 'kysely'
import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, sqlite } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { freePort, listenLocally } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { PUBLIC_URL, signInWith, startBeside, startWithProvider } from '../helpers/oidc-sign-in.ts'
import { createAccount, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { startProcess } from '../helpers/process.ts'
import { startServer } from '../helpers/server.ts'

const DAY = 24 * 3600

for (const database of databases) {
  t.test(`sign-in with a provider on ${database.name}`, async (t) => {
    const { provider, server } = await startWithProvider(t, { database, signInEvery: 30 * DAY })
    const { store } = server
    const open = () => openPageClient(server.url)
    const issuer = provider.options.issuer

    t.test('the first sign-in creates a user and returns to the page', async (t) => {
      const client = open()
      const page = await client.get('/login?next=/settings/tokens')
      t.match(page.body, `>Sign in with ${new URL(issuer).host}</a>`)
      t.match(page.body, 'href="/login/oidc?next=%2Fsettings%2Ftokens"')
      t.match(page.body, 'id="password"', 'beside the form')
      const done = await signInWith(client, provider, 'alice', '/settings/tokens')
      t.same([done.status, done.headers.get('location')], [303, '/settings/tokens'], done.body)
      t.match((await client.get('/settings/tokens')).body, '<summary>alice</summary>')
      t.match(await store.users.get('alice'), {
        passwordHash: null,
        issuer,
        subject: 'alice',
        signedInAt: Number,
      })
      t.match(await listEvents(store, { user: 'alice' }), [
        { actor: 'user', action: 'user.created', details: { password: false, issuer } },
        { actor: 'user', action: 'sign-in', details: { issuer } },
      ])
      t.equal((await signInWith(open(), provider, 'alice')).status, 303, 'again, in another browser')
      t.equal((await store.users.list()).length, 1)
    })

    t.test(
      'of one person who signs in for the first time in several browsers at once there is one user',
      async (t) => {
        const answers = await Promise.all(
          Array.from({ length: 5 }, () => signInWith(open(), provider, 'eve')),
        )
        t.same(
          answers.map(({ status }) => status),
          [303, 303, 303, 303, 303],
        )
        t.equal((await store.sessions.list((await store.users.get('eve')).id, 10)).length, 5)
        // Each instance has its own queue.
        const identity = { issuer, subject: 'erin' }
        const created = await Promise.all(
          Array.from({ length: 5 }, () => store.users.findOrCreate(identity, 'erin', '127.0.0.1')),
        )
        t.equal(new Set(created.map(({ id }) => id)).size, 1)
      },
    )

    t.test('an administrator links an existing user, who then signs in without a password', async (t) => {
      await createAccount(server, 'dave')
      const before = open()
      await before.signIn('dave')
      t.equal((await signInWith(open(), provider, 'dave')).status, 403)
      t.equal(await asAdministrator(store).users.link('dave', { issuer, subject: 'dave' }), 1)
      t.equal((await before.get('/settings/tokens')).status, 303, 'sessions ended')
      t.equal((await open().signIn('dave', PASSWORD)).status, 401, 'no password')
      const client = open()
      t.equal((await signInWith(client, provider, 'dave')).status, 303)
      const account = await client.get('/settings/account')
      t.notMatch(account.body, 'Change password')
      t.equal(await asAdministrator(store).users.link('dave', null), 1)
      t.equal((await client.get('/settings/tokens')).status, 303, 'sessions ended')
      t.equal((await signInWith(open(), provider, 'dave')).status, 403)
      t.equal((await open().signIn('dave', PASSWORD)).status, 303)
    })

    t.test('a subject of another issuer is another person', async (t) => {
      await createAccount(server, 'other')
      await asAdministrator(store).users.link('other', { issuer: 'https://id.example.org/', subject: 'zoe' })
      const client = open()
      t.equal((await signInWith(client, provider, 'zoe')).status, 303)
      t.match((await client.get('/settings/tokens')).body, '<summary>zoe</summary>')
    })

    t.test('a locked user is out at once and cannot sign in', async (t) => {
      const client = open()
      await signInWith(client, provider, 'frank')
      const token = await server.createToken('frank')
      t.equal(
        (await server.call('GET', `/api/v1/repos/a/b/commits/${'0'.repeat(40)}/statuses`, { token })).status,
        404,
      )
      await asAdministrator(store).users.setLocked('frank', true)
      t.equal((await client.get('/settings/tokens')).status, 303)
      const answer = await signInWith(open(), provider, 'frank')
      t.match([answer.status, answer.body], [403, /Your user is locked/])
      t.notMatch(answer.body, 'user link')
      t.equal(
        (await server.call('GET', `/api/v1/repos/a/b/commits/${'0'.repeat(40)}/statuses`, { token })).status,
        401,
      )
    })

    t.test('a session ends after 12 hours, used or not', async (t) => {
      const client = open()
      await signInWith(client, provider, 'grace')
      const user = await store.users.get('grace')
      const formatAge = (seconds: number) =>
        store.engine.kysely
          .updateTable('sessions')
          .set(({ ref }) => ({ ends_at: sql<number>`${ref('ends_at')} - ${seconds}` }))
          .where('user_id', '=', user.id)
          .execute()
      await formatAge(12 * 3600 - 60)
      t.equal((await client.get('/settings/tokens')).status, 200)
      t.equal((await store.sessions.list(user.id, 10)).length, 1)
      await formatAge(60)
      t.equal((await client.get('/settings/tokens')).status, 303)
      t.same(await store.sessions.list(user.id, 10), [])
    })

    t.test('tokens work while the person has signed in lately, and machines are not asked', async (t) => {
      const { commits } = await server.createRepository('acme/repo', { private: true })
      const machine = await server.createToken('acme')
      await signInWith(open(), provider, 'heidi')
      const user = await store.users.get('heidi')
      await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'repo' }, user.id, 'write')
      const token = await server.createToken('heidi')
      const read = (token: string) => server.read('acme/repo', commits[0] ?? '', token)
      const signedIn = (secondsAgo: number) =>
        store.engine.kysely
          .updateTable('users')
          .set({ signed_in_at: Math.floor(Date.now() / 1000) - secondsAgo })
          .where('id', '=', user.id)
          .execute()
      t.equal((await read(token)).status, 200)
      await signedIn(30 * DAY - 60)
      t.equal((await read(token)).status, 200)
      await signedIn(30 * DAY)
      t.match(await read(token), { status: 401, json: { error: /has not signed in for too long/ } })
      t.equal((await read(machine)).status, 200)
      const client = open()
      await signInWith(client, provider, 'heidi')
      t.equal((await read(token)).status, 200, 'works again at once')
      const day = new Date(Date.now() + 30 * DAY * 1000).toISOString().slice(0, 10)
      const page = await client.get('/settings/tokens')
      t.match(page.body, new RegExp(`They stop working at <time[^>]*><span>${day}`))
      t.notMatch(page.body, '>soon<')
      await signedIn(24 * DAY)
      t.match((await client.get('/settings/tokens')).body, '>soon<')
      await signedIn(31 * DAY)
      t.equal((await read(token)).status, 401)
      await asAdministrator(store).users.link('heidi', null)
      t.equal((await read(token)).status, 200, 'without a link it is the token of a machine')
    })

    // The rest does not depend on the database.
    if (database !== sqlite) return

    t.test('a name that changes at the provider changes nothing', async (t) => {
      provider.accounts.set('alice', { preferred_username: 'bob' })
      const client = open()
      t.equal((await signInWith(client, provider, 'alice')).status, 303)
      t.match((await client.get('/settings/account')).body, 'as alice.')
      t.equal(await store.users.find('bob'), undefined)
    })

    t.test(
      'nobody gets a name that exists, owns repositories, is reserved or breaks the rules',
      async (t) => {
        await createAccount(server, 'Taken')
        await server.createRepository('owner/repo', { commits: 0 })
        const refused: [name: unknown, text: string][] = [
          ['taken', 'There is already a user "taken".'],
          ['Owner', '"Owner" already owns repositories'],
          ['settings', 'reserved'],
          ['a b', '"a b" is not a valid user name'],
          ['x@example.org', 'is not a valid user name'],
          [`<script>${'x'.repeat(5000)}`, '&lt;script&gt;xxx'],
          ['\u202ename', '[U+202E]name'],
          ['', 'does not tell your name'],
          [undefined, 'does not tell your name'],
          [['list'], 'does not tell your name'],
        ]
        const refusalEvents = async () =>
          (await listEvents(store)).filter(({ action }) => action === 'sign-in.refused')
        const earlier = (await refusalEvents()).length
        const before = (await store.users.list()).length
        for (const [name, text] of refused) {
          provider.accounts.set("it's", { preferred_username: name })
          const client = open()
          const answer = await signInWith(client, provider, "it's")
          const shown = answer.body.replaceAll('&quot;', '"')
          t.equal(answer.status, 403, String(name).slice(0, 20))
          t.ok(shown.includes(text), shown)
          t.match(answer.body, 'user link NAME --subject &#39;it&#39;\\&#39;&#39;s&#39;')
          t.equal((await client.get('/settings/tokens')).status, 303, 'no session')
        }
        t.equal((await store.users.list()).length, before)
        const refusals = (await refusalEvents()).slice(earlier)
        t.equal(refusals.length, refused.length)
        t.match(refusals[0], { actor: 'anonymous', user: null, details: { issuer, reason: 'name' } })
        t.notMatch(JSON.stringify(refusals), /taken|it's/i, 'nothing that the provider said')
      },
    )

    t.test('a link that is removed during a sign-in is no lock', async (t) => {
      const { users } = store
      const { findOrCreate } = users
      t.teardown(() => Object.assign(users, { findOrCreate }))
      users.findOrCreate = async (identity, name, address) => {
        const user = await findOrCreate(identity, name, address)
        await asAdministrator(store).users.link(user.name, null)
        return user
      }
      const client = open()
      const answer = await signInWith(client, provider, 'nina')
      t.match([answer.status, answer.body], [401, /Start again/])
      t.equal((await client.get('/settings/tokens')).status, 303, 'no session')
    })

    t.test('sign-out ends the session here, then at the provider', async (t) => {
      const client = open()
      await signInWith(client, provider, 'ivan')
      const early = await client.get('/login/signed-out')
      t.same([early.status, early.headers.get('location')], [303, '/'], 'not while signed in')
      const out = await client.submit('/settings/tokens', '/logout')
      t.same([out.status, out.headers.get('location')], [303, '/login/signed-out'])
      t.equal((await client.get('/settings/tokens')).status, 303)
      const idToken = client.cookies.get('id-token') ?? ''
      const page = await client.get('/login/signed-out')
      t.match(page.headers.getSetCookie(), [/^id-token=; Max-Age=0; Path=\/login\/signed-out;/])
      const [, target = ''] = /content="0; url=([^"]+)"/.exec(page.body) ?? []
      const url = new URL(target.replaceAll('&amp;', '&'))
      t.equal(url.origin, new URL(issuer).origin)
      t.same(Object.fromEntries(url.searchParams), {
        client_id: 'commit-status',
        id_token_hint: idToken,
        post_logout_redirect_uri: 'http://status.test/',
      })
      t.equal((await fetch(url)).status, 200)
      await createAccount(server, 'judy')
      await client.signIn('judy')
      const byPassword = await client.submit('/settings/tokens', '/logout')
      t.equal(byPassword.headers.get('location'), '/', 'a session with a password has no part there')
    })
  })
}

t.test('claims come from the ID token or from the userinfo endpoint', async (t) => {
  for (const conformIdTokenClaims of [true, false]) {
    const requiredClaim = { name: 'groups', value: 'ci-users' }
    const { provider, server } = await startWithProvider(t, {}, { conformIdTokenClaims })
    const strict = await startBeside(t, { ...provider.options, requiredClaim })
    const asked = () => provider.requests.filter((path) => path === '/me').length
    t.equal((await signInWith(openPageClient(server.url), provider, 'alice')).status, 303)
    t.equal(asked(), conformIdTokenClaims ? 1 : 0, 'only if the ID token lacks one')

    const groups: [groups: unknown, status: number][] = [
      [['staff'], 403],
      [['staff', 'ci-users'], 303],
      ['ci-users', 303],
      ['ci-users,staff', 403],
      [['ci-users-not'], 403],
      [{ 'ci-users': true }, 403],
      [null, 403],
      [undefined, 403],
    ]
    for (const [claim, status] of groups) {
      provider.accounts.set('bob', { groups: claim })
      const answer = await signInWith(openPageClient(strict.url), provider, 'bob')
      t.equal(answer.status, status, JSON.stringify(claim))
      if (status === 303) continue
      t.match(answer.body, 'You need groups=ci-users to sign in.')
      t.notMatch(answer.body, 'user link', 'which would not help')
    }
    const [, query = ''] =
      provider.requests
        .filter((path) => path.startsWith('/auth?'))
        .at(-1)
        ?.split('?') ?? []
    t.equal(
      new URLSearchParams(query).get('scope'),
      'openid profile groups',
      'a scope of the name of a claim',
    )
  }
})

t.test('providers answer as the guide says', async (t) => {
  const names = ['preferred_username', 'name', 'user_name', 'hd', 'roles', 'realm_access', 'hasgroups']
  const { provider } = await startWithProvider(
    t,
    {},
    { conformIdTokenClaims: false, claims: { openid: ['sub'], profile: names, groups: ['groups'] } },
  )
  const [address, display] = ['alice@example.org', 'Alice Example']
  const overflow = { groups: undefined, hasgroups: true }
  const byGroup = 'groups=ci-users'
  const many = Array.from({ length: 200 }, (_, index) => `group ${index} of the company`)
  const rows: [
    who: string,
    claims: object,
    required: string,
    nameClaim: string | null,
    page: RegExp | null,
  ][] = [
    ['Keycloak', { groups: ['ci-users'] }, byGroup, null, null],
    ['Keycloak with full paths', { groups: ['/ci-users'] }, byGroup, null, /Ask for it where/],
    ['Keycloak with full paths', { groups: ['/ci-users'] }, 'groups=/ci-users', null, null],
    ['Keycloak: nested', { realm_access: { roles: ['ci'] } }, 'realm_access.roles=ci', null, /did not send/],
    ['Keycloak: a mapper', { roles: ['ci', 'offline_access'] }, 'roles=ci', null, null],
    [
      'Keycloak: addresses',
      { preferred_username: address, groups: ['ci-users'] },
      byGroup,
      null,
      /user link/,
    ],
    ['authentik', { name: display, groups: ['authentik Admins', 'ci-users'] }, byGroup, null, null],
    [
      'Entra ID',
      { preferred_username: address, roles: ['ci-user'] },
      'roles=ci-user',
      null,
      /not a valid user/,
    ],
    [
      'Entra ID',
      { preferred_username: address, user_name: 'al', roles: ['ci-user'] },
      'roles=ci-user',
      'user_name',
      null,
    ],
    [
      'Entra ID: no role',
      { preferred_username: address },
      'roles=ci-user',
      null,
      /did not send the claim "roles"\./,
    ],
    ['Entra ID: many groups', overflow, byGroup, null, /because your account is in too many groups/],
    ['Okta', { preferred_username: address, groups: ['ci-users'] }, byGroup, null, /not a valid user name/],
    [
      'Okta',
      { preferred_username: address, user_name: 'al', groups: ['ci-users'] },
      byGroup,
      'user_name',
      null,
    ],
    [
      'Google',
      { preferred_username: undefined, hd: 'example.org' },
      'hd=example.org',
      null,
      /does not tell your name.*user link/s,
    ],
    [
      'Google: private',
      { preferred_username: undefined },
      'hd=example.org',
      null,
      /did not send the claim "hd"/,
    ],
    ['Dex', { name: 'alice', groups: ['acme:ci', 'ci-users'] }, byGroup, null, null],
    [
      'Dex without a name',
      { preferred_username: undefined, groups: ['ci-users'] },
      byGroup,
      null,
      /does not tell/,
    ],
    ['many groups', { groups: ['ci-users', ...many] }, byGroup, null, null],
  ]
  for (const [who, claims, required, nameClaim, page] of rows) {
    const [name = '', value = ''] = required.split('=')
    const requiredClaim = { name, value }
    const oidc = { ...provider.options, requiredClaim, ...(nameClaim && { nameClaim }) }
    const server = await startBeside(t, oidc)
    provider.accounts.set('alice', { ...claims })
    const client = openPageClient(server.url)
    const answer = await signInWith(client, provider, 'alice')
    t.equal(answer.status, page ? 403 : 303, `${who} ${required}`)
    if (page) t.match(answer.body.replaceAll('&quot;', '"'), page, who)
    else
      t.same(
        (await server.store.users.list()).map((user) => user.name),
        [nameClaim ? 'al' : 'alice'],
        who,
      )
    t.equal(client.cookies.has('id-token'), page === null && who !== 'many groups', 'what fits into a cookie')
  }
})

t.test('a signed claim counts more than one of the userinfo endpoint', async (t) => {
  const { provider } = await startWithProvider(t, {}, { conformIdTokenClaims: false })
  const requiredClaim = { name: 'groups', value: 'staff' }
  const server = await startBeside(t, { ...provider.options, requiredClaim })
  // So the ID token lacks it.
  provider.accounts.set('carol', { groups: undefined })
  provider.intercept = (request, response) => {
    if (request.url !== '/me') return false
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ sub: 'carol', preferred_username: 'mallory', groups: ['staff'] }))
    return true
  }
  t.equal((await signInWith(openPageClient(server.url), provider, 'carol')).status, 303)
  t.same(
    (await server.store.users.list()).map(({ name }) => name),
    ['carol'],
  )
})

t.test('sign-in with passwords can be removed', async (t) => {
  const { provider, server } = await startWithProvider(t, { passwordSignIn: false })
  await createAccount(server, 'alice')
  const client = openPageClient(server.url)
  t.notMatch((await client.get('/login')).body, '<form')
  t.equal((await client.signIn('alice')).status, 405)
  t.equal((await signInWith(client, provider, 'bob')).status, 303)
})

t.test('without a provider there is nothing of it', async (t) => {
  const server = await startServer(t)
  const client = openPageClient(server.url)
  for (const path of ['/login/oidc', '/login/callback', '/login/signed-out'])
    t.equal((await client.get(path, { headers: { accept: 'text/html' } })).status, 404, path)
  t.notMatch((await client.get('/login')).body, 'Sign in with')
})

/** Makes a process print each module that it loads. */
const PRINT_LOADS = `data:text/javascript,import { registerHooks } from 'node:module';
registerHooks({ load(url, context, next) { console.log('LOADED ' + url); return next(url, context) } })`

t.test('the process of a server', async (t) => {
  const { options } = await openTestStore(t, sqlite)
  const folder = t.testdir({ secret: 'from a file\n' })
  const settings = {
    PUBLIC_URL,
    // Nothing listens there.
    OIDC_ISSUER: `http://127.0.0.1:${await freePort()}/realms/x`,
    OIDC_CLIENT_ID: 'commit-status',
    OIDC_CLIENT_SECRET_FILE: join(folder, 'secret'),
  }

  const start = (environment: Record<string, string>) =>
    startInstance(t, options, environment, ['--import', PRINT_LOADS])
  const loaded = (log: string[]) => {
    t.ok(log.filter((line) => line.startsWith('LOADED ')).length > 100)
    return log.filter((line) => /^LOADED .*\/(?:openid-client|oauth4webapi|jose|oidc)\b/.test(line)).length
  }

  t.test('loads nothing of sign-in with a provider unless there is one', async (t) => {
    t.equal(loaded((await start({})).log), 0)
  })

  t.test('starts while the provider is away, asks it through a proxy, and sign-in says so', async (t) => {
    const asked: (string | undefined)[] = []
    const proxy = createServer().on('connect', (request, socket) => {
      asked.push(request.url)
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
    })
    const HTTP_PROXY = `http://127.0.0.1:${await listenLocally(proxy)}`
    t.teardown(() => proxy.close())
    const environment = { ...settings, LOG_LEVEL: 'debug', NODE_USE_ENV_PROXY: '1', HTTP_PROXY }
    const { url, log } = await start(environment)
    t.ok(loaded(log) > 3)
    t.same(asked, [], 'it waits for no provider')
    const client = openPageClient(url)
    t.match((await client.get('/login')).status, 200)
    const answer = await client.get('/login/oidc?next=/x')
    t.match([answer.status, answer.body], [503, /does not answer as it should/])
    t.same(asked, [new URL(settings.OIDC_ISSUER).host])
    t.notMatch(log.join('\n'), /from a file|next=/)
  })

  t.test('does not start without the secret', async (t) => {
    for (const [file, message] of [
      [join(folder, 'none'), /^OIDC_CLIENT_SECRET_FILE: ENOENT[^\n]*\n$/],
      ['', /^OIDC_CLIENT_SECRET: not set, although OIDC_ISSUER is\n$/],
    ] as const) {
      const server = startProcess(t, process.execPath, ['src/server.ts'], {
        DATA_DIR: options.dataDir,
        PORT: '0',
        ...settings,
        OIDC_CLIENT_SECRET_FILE: file,
      })
      t.equal(await server.ended, 1)
      t.match(server.stderr(), message)
    }
  })
})
