import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  bearerToken,
  ConfigError,
  choice,
  databaseUrl,
  duration,
  integer,
  issuer,
  origin,
  proxies,
  requiredClaim,
  text,
} from './config-values.ts'
import { MAX_CONTEXTS } from './store/store.ts'
import { VISIBILITIES } from './store/tables.ts'

/** The server's settings. Durations are in milliseconds where nothing else is said. */
export type Config = ReturnType<typeof readConfig>

const NONE = { default: '', unset: 'none' }
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/**
 * Every environment variable of the server. The configuration is read with this table, `--help`
 * prints it, and a test compares the operator's guide with it.
 */
const variables = {
  HOST: { read: text, default: '127.0.0.1', meaning: 'address to listen on' },
  PORT: { read: integer(0, 65_535), default: 3000, meaning: 'port to listen on; 0 picks a free one' },
  DATA_DIR: {
    read: text,
    default: './data',
    meaning: 'folder of the SQLite database and of the repositories that the server creates',
  },
  DATABASE_URL: {
    read: databaseUrl,
    isSecret: true,
    default: '',
    unset: 'SQLite in DATA_DIR',
    meaning: 'PostgreSQL database, as postgres://user:password@host:5432/database',
  },
  DATABASE_POOL: {
    read: integer(1, 1000),
    default: 10,
    meaning: 'connections of one process to PostgreSQL; with three or more, some are reserved for reads',
  },
  MAX_CONTEXTS: {
    read: integer(1, 1_000_000_000),
    default: MAX_CONTEXTS,
    meaning: `contexts that a commit may have, at most ${MAX_CONTEXTS}; a report that would add one more gets 422`,
  },
  STALLED_AFTER: {
    read: duration,
    default: '1h',
    meaning:
      'time without a report after which pages call a pending check stalled: a number with s, m, h or d',
  },
  PUBLIC_URL: {
    read: origin,
    default: '',
    unset: 'origin of the request',
    meaning: 'origin that people use, for secure cookies and examples to copy',
  },
  TRUSTED_PROXIES: {
    read: proxies,
    default: '',
    unset: 'none',
    meaning: 'proxies whose X-Forwarded-* headers are believed: CIDRs, separated by commas',
  },
  AUTH_FAILURE_LIMIT: {
    read: integer(1, 1_000_000_000),
    default: 30,
    meaning: 'failed authentication attempts that an address may make in one window',
  },
  AUTH_FAILURE_WINDOW: {
    read: integer(1, 1_000_000_000),
    default: 300,
    meaning: 'length of that window in seconds',
  },
  GIT_MAX_BYTES: { read: integer(1), default: 2 * 1024 ** 3, meaning: 'largest push in bytes' },
  GIT_TIMEOUT: {
    // Node's timers hold no more milliseconds.
    read: integer(1, 2_147_483),
    default: 600,
    meaning: 'seconds that git may work on one request',
  },
  SPOOL_MAX_BYTES: {
    read: integer(0),
    default: 0,
    unset: 'the smaller of 8 GiB and a quarter of the free disk',
    meaning:
      'bytes in DATA_DIR/spool for pushes until git has ended, and again as many for answers of git that are not read yet; also bounds the largest push',
  },
  GIT_MAX_CHILDREN: {
    read: integer(1),
    default: 16,
    meaning: 'requests that git works on at the same time',
  },
  METRICS_TOKEN: {
    read: bearerToken,
    isSecret: true,
    default: '',
    unset: 'none; /metrics is 404',
    meaning: 'token that /metrics requires as "Authorization: Bearer"',
  },
  TOKEN_MAX_LIFETIME: {
    read: (text: string, name: string) => (text === '' ? null : duration(text, name)),
    default: '',
    unset: 'none',
    meaning:
      'longest time for which a new token may work, such as 365d; one without an expiry gets it, and a longer one is refused',
  },
  DEFAULT_VISIBILITY: {
    read: choice(VISIBILITIES),
    default: 'public',
    meaning: 'who can see a repository that is created without --public or --private: public or private',
  },
  REPOSITORY_CREATION: {
    read: choice(['on', 'off']),
    default: 'on',
    meaning: 'whether users create repositories in the browser: on, off',
  },
  OIDC_ISSUER: { read: issuer, ...NONE, meaning: 'OpenID Connect provider for sign-in; requires PUBLIC_URL' },
  OIDC_CLIENT_ID: { read: text, ...NONE, meaning: 'client whose redirect URI is PUBLIC_URL/login/callback' },
  OIDC_CLIENT_SECRET: { read: text, isSecret: true, ...NONE, meaning: 'secret of that client' },
  OIDC_NAME_CLAIM: { read: text, default: 'preferred_username', meaning: 'claim that names new users' },
  OIDC_REQUIRED_CLAIM: {
    read: requiredClaim,
    ...NONE,
    meaning: 'claim without which nobody can sign in with the provider, for example groups=ci-users',
  },
  OIDC_SIGN_IN_EVERY: {
    read: (text: string, name: string) => (text === '0' ? 0 : duration(text, name)),
    default: '30d',
    meaning: "time after a linked user's last sign-in in which the user's tokens work; 0: always",
  },
  PASSWORD_SIGN_IN: {
    read: choice(['on', 'off']),
    default: 'on',
    meaning: 'sign-in with passwords: on, off',
  },
  LOG_LEVEL: {
    read: choice(LEVELS),
    default: 'info',
    meaning: `least severe level that is logged: ${LEVELS.join(', ')}`,
  },
} satisfies Record<string, Variable<unknown>>

interface Variable<Value> {
  /**
   * Returns the value of a text that is not empty, or of the default.
   *
   * @throws ConfigError naming the variable
   */
  read(text: string, name: string): Value
  default: string | number
  /** Describes what an empty default means. */
  unset?: string
  /** Whether it can also be in the file that the variable `NAME_FILE` names. */
  isSecret?: boolean
  meaning: string
}

type Values = { [Name in keyof typeof variables]: ReturnType<(typeof variables)[Name]['read']> }
/** The same table, in which the type of a value follows from a name. */
const typed: { [Name in keyof Values]: Variable<Values[Name]> } = variables

/** Returns every variable with its default in words and its meaning. */
export function describeVariables(): { name: string; default: string; meaning: string }[] {
  return Object.entries<Variable<unknown>>(variables).flatMap(([name, variable]) => [
    { name, default: variable.unset ?? String(variable.default), meaning: variable.meaning },
    ...(variable.isSecret
      ? [{ name: `${name}_FILE`, default: 'none', meaning: `file that contains ${name} instead` }]
      : []),
  ])
}

/**
 * Reads the configuration. A variable that is set but empty counts as not set.
 *
 * @throws ConfigError naming the variable that is wrong or misspelled
 */
export function readConfig(environment: NodeJS.ProcessEnv) {
  const warnings = checkNames(environment)
  const get = <Name extends keyof Values>(name: Name): Values[Name] => {
    const variable = typed[name]
    const text = variable.isSecret ? secretOf(name, environment) : environment[name]
    return variable.read(text || String(variable.default), name)
  }

  const maxContexts = get('MAX_CONTEXTS')
  if (maxContexts > MAX_CONTEXTS)
    warnings.push(
      `MAX_CONTEXTS: ${maxContexts} is read as ${MAX_CONTEXTS}, the most contexts that a commit may have`,
    )

  const oidc = {
    issuer: get('OIDC_ISSUER'),
    clientId: get('OIDC_CLIENT_ID'),
    clientSecret: get('OIDC_CLIENT_SECRET'),
    nameClaim: get('OIDC_NAME_CLAIM'),
    requiredClaim: get('OIDC_REQUIRED_CLAIM'),
  }
  for (const name of ['PUBLIC_URL', 'OIDC_CLIENT_ID'] as const)
    if (oidc.issuer && !get(name)) throw new ConfigError(`${name}: not set, although OIDC_ISSUER is`)

  return {
    host: get('HOST'),
    port: get('PORT'),
    dataDir: resolve(get('DATA_DIR')),
    /** Holds a password: never show it. */
    databaseUrl: get('DATABASE_URL'),
    poolSize: get('DATABASE_POOL'),
    maxContexts: Math.min(maxContexts, MAX_CONTEXTS),
    /** Seconds. */
    stalledAfter: get('STALLED_AFTER') / 1000,
    publicUrl: get('PUBLIC_URL'),
    trustedProxies: get('TRUSTED_PROXIES'),
    budget: { limit: get('AUTH_FAILURE_LIMIT'), window: get('AUTH_FAILURE_WINDOW') },
    git: {
      maxBytes: get('GIT_MAX_BYTES'),
      timeout: get('GIT_TIMEOUT') * 1000,
      maxChildren: get('GIT_MAX_CHILDREN'),
    },
    /** 0: see `openSpool`. */
    spoolBytes: get('SPOOL_MAX_BYTES'),
    metricsToken: get('METRICS_TOKEN') || null,
    tokenMaxLifetime: get('TOKEN_MAX_LIFETIME'),
    defaultVisibility: get('DEFAULT_VISIBILITY'),
    repositoryCreation: get('REPOSITORY_CREATION') === 'on',
    /** Commands may not know the secret, which is empty then. */
    oidc: oidc.issuer ? oidc : null,
    passwordSignIn: get('PASSWORD_SIGN_IN') === 'on',
    /** Seconds; see `StoreOptions`. */
    signInEvery: oidc.issuer ? get('OIDC_SIGN_IN_EVERY') / 1000 : 0,
    logLevel: get('LOG_LEVEL'),
    warnings,
  }
}

/**
 * Refuses names that resemble a variable, which would otherwise keep its default without notice.
 * Similar is a name of as many words of which one differs, in less than half of its letters or, of
 * three words, in two, or whose letters are the same: `TRUSTED_PROXY`, but not `DATABASE_PORT`,
 * which Kubernetes sets for a service `database`. Other programs too use names of one word, and of
 * their database: those only lead to a warning.
 *
 * @returns warnings
 */
function checkNames(environment: NodeJS.ProcessEnv): string[] {
  const names = describeVariables().map(({ name }) => name)
  const warnings: string[] = []
  for (const given of Object.keys(environment)) {
    if (names.includes(given)) continue
    const similar = names.find((name) => resembles(given.toUpperCase(), name))
    if (!similar) continue
    const text = `${given}: unknown variable (do you mean ${similar}?)`
    if (!/^[^_]*$|^DATABASE_/i.test(given)) throw new ConfigError(text)
    warnings.push(text)
  }
  return warnings
}

function resembles(given: string, name: string): boolean {
  if (given.replaceAll('_', '') === name.replaceAll('_', '')) return true
  const [words, expected] = [given.split('_'), name.split('_')]
  if (words.length !== expected.length) return false
  const different = expected.findIndex((word, index) => word !== words[index])
  const [word = '', other = ''] = [words[different], expected[different]]
  if (words.with(different, other).join('_') !== name) return false
  const shorter = Math.min(word.length, other.length)
  let start = 0
  while (start < shorter && word[start] === other[start]) start++
  let end = 0
  while (start + end < shorter && word.at(-1 - end) === other.at(-1 - end)) end++
  const longer = Math.max(word.length, other.length)
  const letters = longer - start - end
  return 2 * letters < longer || (words.length > 2 && letters <= 2)
}

/** Returns a secret of the environment, or of its file without white space at its end. */
function secretOf(name: string, environment: NodeJS.ProcessEnv): string | undefined {
  const file = environment[`${name}_FILE`]
  if (!file) return environment[name]
  if (environment[name]) throw new ConfigError(`${name}: ${name}_FILE is set too; remove one`)
  const secret = readSecret(file, `${name}_FILE`)
  if (secret === '') throw new ConfigError(`${name}_FILE: ${file} is empty`)
  if (secret.startsWith('\ufeff'))
    throw new ConfigError(`${name}_FILE: ${file} begins with a byte order mark. Save it without one`)
  return secret
}

function readSecret(file: string, variable: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd()
  } catch (error) {
    throw new ConfigError(`${variable}: ${error instanceof Error ? error.message : error}`)
  }
}
