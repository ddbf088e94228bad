import { join, resolve } from 'node:path'
import t from 'tap'
import { readConfig } from '../src/config.ts'

const NO_COUNT = ['0', '-1', '1.5', 'x', '1e', '0x10', 'Infinity', '1e400', '9'.repeat(12), '9'.repeat(400)]

/** What each variable must not hold. */
const wrong: Record<string, string[]> = {
  PORT: ['-1', '65536', '3000.5', 'x', '80 80', 'http'],
  DATABASE_URL: ['x', 'mysql://localhost/x', 'http://user:secret@localhost', 'user:secret@localhost/x'],
  DATABASE_POOL: NO_COUNT,
  MAX_CONTEXTS: NO_COUNT,
  STALLED_AFTER: ['0s', '0', '60', '1 h', '1w', '-1h', '1.5h', 'h', '3651d', '9'.repeat(400)],
  PUBLIC_URL: [
    'status.example.org',
    'https://status.example.org/path',
    'https://status.example.org/?x',
    'https://status.example.org/#x',
    'https://user:secret@status.example.org',
    'https://@status.example.org',
    'ftp://status.example.org',
    '/',
  ],
  TRUSTED_PROXIES: ['x', '10.0.0.0/33', '10.0.0.0/8;::1', '10.0.0.0/8 ::1', 'proxy.example.org'],
  AUTH_FAILURE_LIMIT: NO_COUNT,
  AUTH_FAILURE_WINDOW: NO_COUNT,
  OIDC_ISSUER: [
    'id.example.org',
    'ftp://id.example.org',
    'http://id.example.org',
    'http://127.0.0.1.example.org',
    'http://localhost.example.org',
    'https://user:secret@id.example.org',
    'https://id.example.org/?secret',
    'https://id.example.org/#x',
    '/',
  ],
  OIDC_REQUIRED_CLAIM: ['groups', 'groups=', '=staff', '='],
  PASSWORD_SIGN_IN: ['yes', 'OFF', '0'],
  REPOSITORY_CREATION: ['true', 'ON'],
  METRICS_TOKEN: ['two words', 'caf\u00e9', 'line\n'],
  TOKEN_MAX_LIFETIME: ['0', '0s', '90', 'never', '3651d'],
  DEFAULT_VISIBILITY: ['hidden', 'PUBLIC'],
  LOG_LEVEL: ['verbose', 'INFO', '30'],
}

t.test('defaults', async (t) => {
  const defaults = {
    host: '127.0.0.1',
    port: 3000,
    dataDir: resolve('data'),
    databaseUrl: null,
    maxContexts: 1_000,
    stalledAfter: 3_600,
    publicUrl: null,
    trustedProxies: [],
    budget: { limit: 30, window: 300 },
    logLevel: 'info',
  }
  t.match(readConfig({}), defaults)
  const empty = Object.fromEntries(Object.keys(wrong).map((name) => [name, '']))
  t.same(readConfig(empty), readConfig({}), 'a variable that is set but empty counts as not set')
  t.same(readConfig({ UNRELATED: 'x' }), readConfig({}))
})

t.test('a name that resembles a variable', async (t) => {
  for (const [given, name] of [
    ['TRUSTED_PROXY', 'TRUSTED_PROXIES'],
    ['TOKEN_MAX_LIFETME', 'TOKEN_MAX_LIFETIME'],
    ['PASSWORD_SIGN_ONN', 'PASSWORD_SIGN_IN'],
    ['log_level', 'LOG_LEVEL'],
    ['METRIC_TOKEN_FILE', 'METRICS_TOKEN_FILE'],
    ['GIT_MAX_CHILD', 'GIT_MAX_CHILDREN'],
  ])
    t.throws(() => readConfig({ [`${given}`]: 'x' }), {
      name: 'ConfigError',
      message: `${given}: unknown variable (do you mean ${name}?)`,
    })
  for (const [given, name] of [
    ['HOSTS', 'HOST'],
    ['GHOST', 'HOST'],
    ['PORTS', 'PORT'],
    ['POST', 'HOST'],
    ['SORT', 'PORT'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['DATABASE_URI', 'DATABASE_URL'],
    ['database_url', 'DATABASE_URL'],
    ['DATABASE_URI_FILE', 'DATABASE_URL_FILE'],
  ])
    t.same(
      readConfig({ [`${given}`]: 'x' }),
      { ...readConfig({}), warnings: [`${given}: unknown variable (do you mean ${name}?)`] },
      'names that other programs use only warn',
    )
  const others = [
    'DATABASE_PORT',
    'DATABASE_HOST',
    'HOSTNAME',
    'GIT_DIR',
    'XDG_DATA_DIRS',
    'LOG_FILE',
    'OIDC_CLIENT_URL',
    'DATA',
    '',
  ]
  for (const name of others) t.same(readConfig({ [name]: 'x' }), readConfig({}), name)
})

t.test('values', async (t) => {
  t.match(readConfig({ HOST: '::1', PORT: '0', DATA_DIR: '/srv/x', LOG_LEVEL: 'silent' }), {
    host: '::1',
    port: 0,
    dataDir: '/srv/x',
    logLevel: 'silent',
  })
  t.match(readConfig({ AUTH_FAILURE_LIMIT: '1', AUTH_FAILURE_WINDOW: '86400' }).budget, {
    limit: 1,
    window: 86_400,
  })
  for (const [given, origin] of [
    ['https://status.example.org', 'https://status.example.org'],
    ['https://status.example.org/', 'https://status.example.org'],
    ['HTTP://LOCALHOST:80', 'http://localhost'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
  ] as const) {
    t.equal(readConfig({ PUBLIC_URL: given }).publicUrl, origin, given)
  }
  t.equal(readConfig({ TRUSTED_PROXIES: '10.0.0.0/8, ::1 ,192.0.2.1,' }).trustedProxies.length, 3)
  const databaseUrl = 'postgres://user:secret@db.example.org:5432/statuses'
  t.equal(readConfig({ DATABASE_URL: databaseUrl }).databaseUrl, databaseUrl)
  const warnings = t.capture(process, 'emitWarning')
  for (const [given, used] of [
    ['?sslmode=require', '?sslmode=verify-full'],
    ['?x=1&sslmode=verify-ca&y=2', '?x=1&sslmode=verify-full&y=2'],
    ['?sslmode=no-verify', '?sslmode=no-verify'],
    ['?uselibpqcompat=true&sslmode=require', '?uselibpqcompat=true&sslmode=require'],
  ])
    t.equal(readConfig({ DATABASE_URL: `${databaseUrl}${given}` }).databaseUrl, `${databaseUrl}${used}`)
  t.same(warnings(), [])
})

for (const [name, values] of Object.entries(wrong)) {
  t.test(`${name} with a wrong value`, async (t) => {
    for (const value of values) {
      t.throws(
        () => readConfig({ [name]: value }),
        { name: 'ConfigError', message: new RegExp(`^${name}: ("|the value is not )`) },
        value,
      )
    }
    for (const value of values.filter((value) => value.includes('secret'))) {
      try {
        readConfig({ [name]: value })
        t.fail('not reached')
      } catch (error) {
        t.notMatch(String(error), /secret/, 'no password in a message')
      }
    }
  })
}

t.test('an OpenID Connect provider', async (t) => {
  const complete = {
    OIDC_ISSUER: 'https://id.example.org',
    OIDC_CLIENT_ID: 'commit-status',
    OIDC_CLIENT_SECRET: 'secret',
    PUBLIC_URL: 'https://status.example.org',
  }
  const config = readConfig({ ...complete, OIDC_REQUIRED_CLAIM: 'a=b=c', PASSWORD_SIGN_IN: 'off' })
  t.match(config, {
    oidc: {
      issuer: 'https://id.example.org/',
      clientId: 'commit-status',
      nameClaim: 'preferred_username',
      requiredClaim: { name: 'a', value: 'b=c' },
    },
    passwordSignIn: false,
    signInEvery: 30 * 86_400,
  })
  t.equal(config.oidc?.clientSecret, 'secret')
  t.equal(readConfig({ ...complete, OIDC_CLIENT_SECRET: '' }).oidc?.clientSecret, '', 'commands need none')
  t.equal(readConfig({ ...complete, OIDC_SIGN_IN_EVERY: '0' }).signInEvery, 0)
  for (const every of ['0s', '30', '1w', '-1d', '3651d'])
    t.throws(() => readConfig({ ...complete, OIDC_SIGN_IN_EVERY: every }), {
      message: /^OIDC_SIGN_IN_EVERY: "/,
    })
  for (const local of [
    'http://localhost:8080/x',
    'http://127.0.0.1',
    'http://127.1.2.3:1',
    'http://[::1]:1/x',
  ])
    t.equal(readConfig({ ...complete, OIDC_ISSUER: local }).oidc?.issuer, new URL(local).href)
  t.equal(readConfig({ ...complete, OIDC_ISSUER: '' }).oidc, null)
  for (const name of ['OIDC_CLIENT_ID', 'PUBLIC_URL'])
    t.throws(() => readConfig({ ...complete, [name]: '' }), {
      message: `${name}: not set, although OIDC_ISSUER is`,
    })
})

t.test('a commit has at most 1,000 contexts', async (t) => {
  t.match(readConfig({ MAX_CONTEXTS: '1000' }), { maxContexts: 1_000, warnings: [] })
  t.match(readConfig({ MAX_CONTEXTS: '1001' }), {
    maxContexts: 1_000,
    warnings: ['MAX_CONTEXTS: 1001 is read as 1000, the most contexts that a commit may have'],
  })
})

t.test('LOG_LEVEL says what is possible', async (t) => {
  t.throws(() => readConfig({ LOG_LEVEL: 'loud' }), {
    message: 'LOG_LEVEL: "loud" is unknown (expected trace, debug, info, warn, error, fatal, silent)',
  })
})

t.test('a secret can be in a file', async (t) => {
  const files = {
    token: 'from a file\n',
    empty: '\n',
    good: 'secret-token\n',
    marked: '\ufeffsecret-token\n',
  }
  const file = join(t.testdir(files), 'good')
  t.equal(readConfig({ METRICS_TOKEN_FILE: file }).metricsToken, 'secret-token')
  t.equal(readConfig({ METRICS_TOKEN_FILE: '', METRICS_TOKEN: 'x' }).metricsToken, 'x')
  const refused = (more: NodeJS.ProcessEnv, message: RegExp) => {
    t.throws(() => readConfig(more), { name: 'ConfigError', message }, String(message))
  }
  refused({ METRICS_TOKEN_FILE: file, METRICS_TOKEN: 'x' }, /^METRICS_TOKEN: METRICS_TOKEN_FILE is set too/)
  refused({ METRICS_TOKEN_FILE: join(file, '../empty') }, /^METRICS_TOKEN_FILE: .*\/empty is empty$/)
  refused(
    { METRICS_TOKEN_FILE: join(file, '../marked') },
    /^METRICS_TOKEN_FILE: .*\/marked begins with a byte order mark/,
  )
  refused({ METRICS_TOKEN_FILE: '/nowhere/x' }, /^METRICS_TOKEN_FILE: ENOENT.*\/nowhere\/x/)
  refused({ METRICS_TOKEN_FILE: join(file, '../token') }, /^METRICS_TOKEN: the value is not printable/)
  refused({ DATABASE_URL_FILE: file }, /^DATABASE_URL: the value is not the URL/)
})

t.test('times and visibility', async (t) => {
  t.match(readConfig({}), { tokenMaxLifetime: null, defaultVisibility: 'public' })
  t.match(readConfig({ TOKEN_MAX_LIFETIME: '90d', DEFAULT_VISIBILITY: 'private' }), {
    tokenMaxLifetime: 90 * 86_400_000,
    defaultVisibility: 'private',
  })
})
