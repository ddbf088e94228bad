import { createHash, randomBytes } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import type { FastifyInstance, RouteOptions } from 'fastify'
import t, { type Test } from 'tap'
import { createToken } from '../../src/auth/token.ts'
import type { TokenLimits } from '../../src/store/access/token-limits.ts'
import { recipeFiles } from '../../src/web/pages/docs/recipes.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { startServer } from '../helpers/server.ts'
import { insertSession } from '../helpers/sessions.ts'
import {
  always,
  CALLERS,
  type Caller,
  contractRules,
  type Expectation,
  leadingToPage,
  publicOnly,
  REPOSITORIES,
  repositoryPage,
  settingsPage,
  signedIn,
  WAYS,
  type Way,
} from './access-rules.ts'

interface Sample {
  /** May contain `{repo}` and `{sha}`. */
  path: string
  expected: Expectation
  headers?: Record<string, string>
  body?: string
  /** Who requests it; by default all callers. */
  callers?: readonly Caller[]
  /** Whether each answer with content starts git. */
  startsGit?: boolean
}

interface Asked {
  method: string
  status: number
  headers?: Record<string, string>
}

const API = '/api/v1/repos/acme/{repo}'
const GIT = '/acme/{repo}.git'
/** What shows who may by the same handler, and starts no git. */
const WITHOUT_GIT: Record<'GET' | 'POST', Asked> = {
  GET: { method: 'HEAD', status: 200 },
  POST: { method: 'POST', status: 415, headers: { 'content-type': 'text/plain' } },
}
const FORM = { headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: 'name=x' }
/**
 * The file that all callers request. The others go through the same handler, so that a few callers
 * show that they do.
 */
const FIRST_FILE = 'style.css'
const FEW: readonly Caller[] = ['anonymous', 'unknown', 'owner']
/** Who requests other spellings of git's paths: they too have the handler of the first. */
const FEW_OF_GIT: readonly Caller[] = [...FEW, 'stranger', 'reader', 'without push']
const FILES = [
  FIRST_FILE,
  'client.md',
  'SKILL.md',
  'changelog.md',
  ...recipeFiles().map((name) => `recipes/${name}`),
  'commit-status.sh',
  'commit-status-client.tgz',
  'page.js',
  'ages.js',
  'live.js',
  'icon.svg',
  'icon-failure.svg',
  'icon-pending.svg',
  'icon-success.svg',
  'docs.css',
  'docs.js',
  'swagger-ui.css',
  'swagger-ui-bundle.js',
]

/**
 * The shortest request that git accepts: a flush packet, which asks for nothing and sends nothing.
 */
function gitCall(service: string, access: 'read' | 'write', slash = ''): Sample {
  return {
    path: `${GIT}${slash}/${service}`,
    headers: { 'content-type': `application/x-${service}-request` },
    body: '0000',
    expected: contractRules('git', access, 200),
    startsGit: true,
    ...(slash && { callers: FEW_OF_GIT }),
  }
}

/** The list of refs that every fetch and push begins with. */
function refsOf(repository: string, service: string, access: 'read' | 'write'): Sample {
  const path = `${repository}/info/refs?service=${service}`
  return { path, expected: contractRules('git', access, 200), startsGit: true }
}

/** Sample requests for every route of the server. HEAD follows GET. */
const ROUTES: Record<string, Sample[]> = {
  'POST /api/v1/repos/:owner/:repo/statuses/:sha': [
    {
      path: `${API}/statuses/{sha}`,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ state: 'success' }),
      expected: contractRules('api', 'write', 201),
    },
  ],
  'GET /api/v1/repos/:owner/:repo/commits/:sha/statuses': [
    { path: `${API}/commits/{sha}/statuses`, expected: contractRules('api', 'read', 200) },
  ],
  'GET /api/v1/repos/:owner/:repo/commits/:sha/verdict': [
    { path: `${API}/commits/{sha}/verdict?require=*`, expected: contractRules('api', 'read', 200) },
  ],
  'GET /api/v1/repos/:owner/:repo/last-passed': [
    { path: `${API}/last-passed?branch=main&require=ci`, expected: contractRules('api', 'read', 200) },
  ],
  'GET /api/v1/repos/:owner/:repo/awaiting': [
    { path: `${API}/awaiting?context=ci`, expected: contractRules('api', 'read', 200) },
  ],
  'GET /api/v1/repos/:owner/:repo/branches': [
    { path: `${API}/branches`, expected: contractRules('api', 'read', 200) },
  ],
  'GET /:owner/:repo/info/refs': [
    refsOf(GIT, 'git-upload-pack', 'read'),
    refsOf(GIT, 'git-receive-pack', 'write'),
    { ...refsOf('/acme/{repo}', 'git-upload-pack', 'read'), callers: FEW_OF_GIT },
  ],
  'GET /:owner/:repo//info/refs': [{ ...refsOf(`${GIT}/`, 'git-upload-pack', 'read'), callers: FEW_OF_GIT }],
  'POST /:owner/:repo/git-upload-pack': [gitCall('git-upload-pack', 'read')],
  'POST /:owner/:repo//git-upload-pack': [gitCall('git-upload-pack', 'read', '/')],
  'POST /:owner/:repo/git-receive-pack': [gitCall('git-receive-pack', 'write')],
  'POST /:owner/:repo//git-receive-pack': [gitCall('git-receive-pack', 'write', '/')],
  ...Object.fromEntries(
    ['GET', 'POST'].flatMap((method) =>
      ['', '/'].map((slash) => [
        `${method} /:owner/:repo${slash}/info/lfs/*`,
        [{ path: `/acme/{repo}.git${slash}/info/lfs/locks`, expected: always(501) }],
      ]),
    ),
  ),
  'GET /:owner': [{ path: '/acme', expected: always(200) }],
  'GET /:owner/:repo': [{ path: '/acme/{repo}', expected: repositoryPage }],
  // These redirect to the page of the repository or of a commit, whether or not it exists.
  'GET /:owner/:repo/': [{ path: '/acme/{repo}/', expected: always(303) }],
  'GET /:owner/:repo/commits': [{ path: '/acme/{repo}/commits', expected: leadingToPage }],
  'GET /:owner/:repo/commits/*': [{ path: '/acme/{repo}/commits/{sha}', expected: repositoryPage }],
  'GET /:owner/:repo/checks': [{ path: '/acme/{repo}/checks', expected: repositoryPage }],
  'GET /:owner/:repo/badge.svg': [{ path: '/acme/{repo}/badge.svg', expected: publicOnly }],
  ...Object.fromEntries(
    ['', '/access', '/checks', '/events'].map((page) => [
      `GET /:owner/:repo/settings${page}`,
      [{ path: `/acme/{repo}/settings${page}`, expected: settingsPage }],
    ]),
  ),
  // Forms need the token of a session of their own, whoever sends them.
  ...Object.fromEntries(
    ['', '/access', '/checks'].map((page) => [
      `POST /:owner/:repo/settings${page}`,
      [{ path: `/acme/{repo}/settings${page}`, ...FORM, expected: always(403) }],
    ]),
  ),
  'POST /:owner/:repo/commits/*': [{ path: '/acme/{repo}/commits/{sha}', ...FORM, expected: always(403) }],
  'GET /settings/repositories/new': [{ path: '/settings/repositories/new', expected: signedIn(200) }],
  'POST /settings/repositories/new': [
    { path: '/settings/repositories/new', ...FORM, expected: signedIn(403) },
  ],
  ...Object.fromEntries(
    ['members', 'names'].map((form) => [
      `POST /settings/owners/:owner/${form}`,
      [{ path: `/settings/owners/acme/${form}`, ...FORM, expected: signedIn(403) }],
    ]),
  ),
  'GET /settings/tokens': [{ path: '/settings/tokens', expected: signedIn(200) }],
  'POST /settings/tokens': [{ path: '/settings/tokens', ...FORM, expected: signedIn(403) }],
  'GET /settings/tokens/:id/rotate': [{ path: '/settings/tokens/0/rotate', expected: signedIn(404) }],
  'POST /settings/tokens/:id/rotate': [
    { path: '/settings/tokens/0/rotate', ...FORM, expected: signedIn(403) },
  ],
  'GET /settings/tokens/:id/revoke': [{ path: '/settings/tokens/0/revoke', expected: signedIn(404) }],
  'POST /settings/tokens/:id/revoke': [
    { path: '/settings/tokens/0/revoke', ...FORM, expected: signedIn(403) },
  ],
  'GET /settings/account': [{ path: '/settings/account', expected: signedIn(200) }],
  'POST /settings/account/password': [
    { path: '/settings/account/password', ...FORM, expected: signedIn(403) },
  ],
  'POST /settings/account/sessions/:id/end': [
    { path: '/settings/account/sessions/0/end', ...FORM, expected: signedIn(403) },
  ],
  'POST /settings/account/sessions/end-others': [
    { path: '/settings/account/sessions/end-others', ...FORM, expected: signedIn(403) },
  ],
  'POST /login': [{ path: '/login', ...FORM, expected: always(403) }],
  'POST /logout': [{ path: '/logout', ...FORM, expected: always(403) }],
  // Requires the metrics token, which no caller here has.
  'GET /metrics': [{ path: '/metrics', expected: always(401) }],
  'GET /login': [
    {
      path: '/login',
      // Signed-in users are redirected.
      expected: (...args) => (signedIn(0)(...args) === 303 ? 200 : 303),
    },
  ],
  ...Object.fromEntries(
    [
      '/',
      '/docs',
      '/docs/reference',
      '/docs/recipes',
      '/docs/recipes/notes',
      '/docs/client',
      '/openapi.yaml',
      '/openapi.json',
      '/healthz',
      '/readyz',
      ...FILES.map((name) => `/assets/${name}`),
    ].map((path) => [`GET ${path}`, [{ path, expected: always(200) }]]),
  ),
  'GET /assets/recipes.md': [{ path: '/assets/recipes.md', expected: always(301) }],
}

const { routes, ask, present } = await setUp(t)

t.test('the table lists exactly the routes of the server', (t) => {
  t.same([...routes].sort(), Object.keys(ROUTES).sort())
  t.end()
})

t.test('every combination of caller, credential form, repository and route', async (t) => {
  for (const [route, samples] of Object.entries(ROUTES)) {
    t.test(route, async (t) => {
      const [method = ''] = route.split(' ')
      for (const sample of samples) {
        const wrong = await compareMethods(method, sample)
        for (const way of WAYS) {
          for (const caller of callersOf(sample, way))
            wrong.push(...(await compare(method, sample, caller, way)))
        }
        t.same(wrong, [], sample.path)
      }
    })
  }

  /** Returns who presents a credential in one way. Without one there is one way. */
  function callersOf(sample: Sample, way: Way): readonly Caller[] {
    const isFurtherFile = sample.path.startsWith('/assets/') && !sample.path.endsWith(FIRST_FILE)
    const isFurtherWay = wayOf(sample) === 'cookie' && !['Bearer', 'cookie'].includes(way)
    const callers = isFurtherFile || isFurtherWay ? FEW : (sample.callers ?? CALLERS)
    return callers.filter((caller) => caller !== 'anonymous' || way === 'Bearer')
  }

  /** No token can do more with another method. Returns what differs, as `compare` does. */
  async function compareMethods(method: string, sample: Sample): Promise<string[]> {
    const wrong: string[] = []
    for (const other of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      if (other === method || (other === 'HEAD' && method === 'GET') || hasRoute(other, sample.path)) continue
      const path = sample.path.replace('{repo}', 'private')
      for (const caller of ['without push', 'without context', 'limited elsewhere'] as const) {
        const { status } = await ask(other, path, present(caller, 'Bearer'))
        if (status !== 405) wrong.push(`${other} · ${caller}: ${status}`)
      }
    }
    return wrong
  }

  /**
   * Returns one line for each answer that differs from the expected one. An assertion each takes
   * longer than a request.
   */
  async function compare(method: string, sample: Sample, caller: Caller, way: Way): Promise<string[]> {
    const wrong: string[] = []
    const expect = (what: string, found: unknown, wanted: unknown) => {
      if (found !== wanted) wrong.push(`${what} · ${caller} · ${way}: ${found} instead of ${wanted}`)
    }
    const headers = { ...sample.headers, ...present(caller, way) }
    const repositories = sample.path.includes('{repo}') ? REPOSITORIES : REPOSITORIES.slice(0, 1)
    const [, hidden, missing] = repositories.map((repository) => sample.expected(caller, way, repository))
    const alike: string[] = []
    for (const repository of repositories) {
      const status = sample.expected(caller, way, repository)
      const path = sample.path.replace('{repo}', repository)
      const isWithoutGit = sample.startsGit && status === 200 && way !== 'Bearer'
      const asked: Asked = isWithoutGit ? WITHOUT_GIT[method === 'GET' ? 'GET' : 'POST'] : { method, status }
      const answer = await ask(asked.method, path, { ...headers, ...asked.headers }, sample.body)
      expect(repository, answer.status, asked.status)
      if (method === 'GET' && (way === wayOf(sample) || caller === 'anonymous')) {
        const head = await ask('HEAD', path, headers)
        expect(`HEAD ${repository}`, head.status, status)
        expect(`body of HEAD ${repository}`, head.body, '')
      }
      // A private repository must be indistinguishable from a missing one.
      if (repository !== 'public') alike.push(answer.raw.replaceAll(repository, '{repo}'))
    }
    if (hidden === missing) expect('private and missing look the same', alike[0], alike[1])
    return wrong
  }
})

/**
 * Returns the way in which a route takes credentials. The others are the same to it: pages read no
 * `Authorization`, which all callers try as Bearer, and three as the rest.
 */
function wayOf({ path }: Sample): Way {
  return /^\/(?:api|metrics)|\/(?:info|git-)/.test(path) ? 'Bearer' : 'cookie'
}

/** Returns whether a route of the method has a sample with this path. */
function hasRoute(method: string, path: string): boolean {
  const own = Object.entries(ROUTES).filter(([route]) =>
    route.startsWith(`${method === 'HEAD' ? 'GET' : method} `),
  )
  return own.some(([, samples]) => samples.some((sample) => sample.path === path))
}

async function setUp(t: Test) {
  const routes = new Set<string>()
  const collect = (message: unknown) => {
    // Node types messages as unknown; Fastify documents this one.
    const { fastify } = message as { fastify: FastifyInstance }
    fastify.addHook('onRoute', ({ method, url }: RouteOptions) => {
      for (const name of [method].flat()) if (name !== 'HEAD') routes.add(`${name} ${url}`)
    })
  }
  subscribe('fastify.initialization', collect)
  const server = await startServer(t, {
    budget: { limit: 1_000_000, window: 300 },
    metricsToken: 'metrics-token-of-this-test',
  })
  unsubscribe('fastify.initialization', collect)
  const { store } = server

  const { commits, path } = await server.createRepository('acme/public')
  const [sha = ''] = commits
  await asAdministrator(store).repositories.create({
    owner: 'acme',
    name: 'private',
    visibility: 'private',
    objectFormat: 'sha1',
    path,
  })
  for (const [user, permission] of [
    ['reader', 'read'],
    ['writer', 'write'],
    ['admin', 'admin'],
    ['locked', 'admin'],
  ] as const) {
    for (const name of ['public', 'private']) {
      await asAdministrator(store).collaborators.set(
        { owner: 'acme', name },
        await server.createUser(user),
        permission,
      )
    }
  }

  // The owner is a user, but access of members is decided as in a group.
  await server.createUser('acme')
  const { id: ownerId } = await store.engine.kysely
    .selectFrom('owners')
    .select('id')
    .where('name_key', '=', 'acme')
    .executeTakeFirstOrThrow()
  const member = {
    owner_id: ownerId,
    user_id: await server.createUser('member'),
    permission: 'write',
  } as const
  await store.engine.kysely.insertInto('members').values(member).execute()

  await server.createRepository('acme/elsewhere', { private: true, commits: 0 })
  const elsewhere = await store.repositories.get('acme', 'elsewhere')
  const limits: Partial<Record<Caller, Partial<TokenLimits>>> = {
    'limited elsewhere': { repositories: [elsewhere.id] },
    'without push': { push: false },
    'without context': { contexts: ['ci/*'] },
  }
  const credentials = new Map<Caller, { token: string; session: string }>()
  for (const caller of CALLERS) {
    if (caller === 'anonymous') continue
    // The other callers are the owner, so that only the credential can be wrong.
    const others: readonly Caller[] = ['stranger', 'reader', 'writer', 'admin', 'member', 'locked']
    const user = others.includes(caller) ? caller : 'acme'
    if (caller === 'locked') await asAdministrator(store).users.setLocked(user, true)
    credentials.set(caller, {
      token: caller === 'unknown' ? createToken() : await tokenOf(caller, user),
      session: await sessionOf(t, caller, await server.createUser(user)),
    })
  }

  async function tokenOf(caller: Caller, user: string): Promise<string> {
    const token = await server.createToken(user, {
      scopes: caller === 'without scope' ? [] : ['repo'],
      ...(caller === 'expired' && { expiresAt: Date.now() - 1 }),
      ...(caller in limits && { limits: limits[caller] ?? {} }),
    })
    const tokens = await store.tokens.list(await server.createUser(user))
    const [{ id } = { id: '' }] = tokens.filter(({ prefix }) => token.startsWith(prefix))
    if (caller === 'revoked') await asAdministrator(store).tokens.revoke(id)
    return token
  }

  async function sessionOf(t: Test, caller: Caller, userId: number): Promise<string> {
    const session = randomBytes(32).toString('base64url')
    const hash = createHash('sha256').update(session).digest('hex')
    if (caller === 'unknown') return session
    const now = Date.now()
    const { restore } = t.capture(Date, 'now', () => (caller === 'expired' ? now - 8 * 24 * 3_600_000 : now))
    await insertSession(store, hash, userId)
    restore()
    if (caller === 'revoked') await asAdministrator(store).sessions.endAll({ id: userId, name: '' })
    return session
  }

  function present(caller: Caller, way: Way): Record<string, string> {
    const credential = credentials.get(caller)
    if (!credential) return {}
    const { token, session } = credential
    if (way === 'cookie') return { cookie: `session=${session}` }
    const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
    if (way === 'Basic user') return { authorization: basic(`${token}:`) }
    if (way === 'Basic password') return { authorization: basic(`git:${token}`) }
    return { authorization: `${way} ${token}` }
  }

  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())

  /**
   * Sends a request. `raw` is everything that must not differ: status, headers and body, without
   * time and random values.
   */
  async function ask(method: string, path: string, headers: Record<string, string>, body?: string) {
    const { promise, resolve, reject } = Promise.withResolvers<{
      status: number
      body: string
      raw: string
    }>()
    request(server.url + path.replace('{sha}', sha), { method, headers, agent }, async (response) => {
      const { statusCode: status = 0, rawHeaders } = response
      const content = await text(response)
      const lines = rawHeaders.map((value, index) => {
        const name = rawHeaders[index - (index % 2)]?.toLowerCase()
        return index % 2 === 1 && (name === 'date' || name === 'x-request-id') ? '…' : value
      })
      const raw = [status, ...lines, content.replace(/name="csrf" value="[^"]+"/g, '')].join('\n')
      resolve({ status, body: content, raw })
    })
      .on('error', reject)
      .end(body)
    return promise
  }

  return { routes, ask, present }
}
