import { resolve } from 'node:path'
import { Ajv } from 'ajv'
import { parse } from 'pg-connection-string'
import { parseCidr, type TrustedProxies } from './auth/address.ts'
import type { BudgetOptions } from './auth/budget.ts'
import type { GitLimits } from './git-http/serve.ts'
import { parseDuration } from './util/duration.ts'

/** The server's settings. */
export interface Config {
  host: string
  port: number
  dataDir: string
  /** A PostgreSQL database; null: SQLite in `dataDir`. Holds a password: never show it. */
  databaseUrl: string | null
  /** Largest number of connections to PostgreSQL. */
  poolSize: number
  /** Largest number of contexts of a commit. */
  maxContexts: number
  /** Seconds after which pages call a pending check stalled. */
  stalledAfter: number
  /** The origin that people use; null: the origin of the request. */
  publicUrl: string | null
  trustedProxies: TrustedProxies
  budget: BudgetOptions
  git: Pick<GitLimits, 'maxBytes' | 'timeout' | 'maxChildren'>
  /** Bytes in `dataDir` for received pushes, and again as many for unread answers; 0: see `openSpool`. */
  spoolBytes: number
  /** The token that `/metrics` requires; null: the page does not exist. */
  metricsToken: string | null
  logLevel: string
}

/** A variable has an invalid value; the message names the variable. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

const MAX_DURATION = 3_650 * 86_400_000
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/**
 * Every environment variable of the server. The configuration is read with this table, `--help` prints it, and a test
 * compares the operator's guide with it. `unset` describes the default where it is no value.
 */
const variables = {
  HOST: { type: 'string', default: '127.0.0.1', meaning: 'address to listen on' },
  PORT: {
    type: 'integer',
    minimum: 0,
    maximum: 65_535,
    default: 3000,
    meaning: 'port to listen on; 0 picks a free one',
  },
  DATA_DIR: {
    type: 'string',
    default: './data',
    meaning: 'folder of the SQLite database and of the repositories that the server creates',
  },
  DATABASE_URL: {
    type: 'string',
    default: '',
    unset: 'SQLite in DATA_DIR',
    meaning: 'PostgreSQL database, as postgres://user:password@host:5432/database',
  },
  DATABASE_POOL: {
    type: 'integer',
    minimum: 1,
    maximum: 1000,
    default: 10,
    meaning: 'connections of one process to PostgreSQL; with three or more, some are reserved for reads',
  },
  MAX_CONTEXTS: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000_000,
    default: 2_000,
    meaning: 'contexts that a commit may have; a report that would add one more gets 422',
  },
  STALLED_AFTER: {
    type: 'string',
    default: '1h',
    meaning:
      'time without a report after which pages call a pending check stalled: a number with s, m, h or d',
  },
  PUBLIC_URL: {
    type: 'string',
    default: '',
    unset: 'origin of the request',
    meaning: 'origin that people use, for secure cookies and examples to copy',
  },
  TRUSTED_PROXIES: {
    type: 'string',
    default: '',
    unset: 'none',
    meaning: 'proxies whose X-Forwarded-* headers are believed: CIDRs, separated by commas',
  },
  AUTH_FAILURE_LIMIT: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000_000,
    default: 30,
    meaning: 'failed authentication attempts that an address may make in one window',
  },
  AUTH_FAILURE_WINDOW: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000_000,
    default: 300,
    meaning: 'length of that window in seconds',
  },
  GIT_MAX_BYTES: {
    type: 'integer',
    minimum: 1,
    default: 2 * 1024 ** 3,
    meaning: 'largest push in bytes',
  },
  GIT_TIMEOUT: {
    type: 'integer',
    minimum: 1,
    // Node's timers hold no more milliseconds.
    maximum: 2_147_483,
    default: 600,
    meaning: 'seconds that git may work on one request',
  },
  SPOOL_MAX_BYTES: {
    type: 'integer',
    minimum: 0,
    default: 0,
    unset: 'the smaller of 8 GiB and a quarter of the free disk',
    meaning:
      'bytes in DATA_DIR/spool for pushes that are received, and again as many for answers of git that are not read yet; also bounds the largest push',
  },
  GIT_MAX_CHILDREN: {
    type: 'integer',
    minimum: 1,
    default: 16,
    meaning: 'requests that git works on at the same time',
  },
  METRICS_TOKEN: {
    type: 'string',
    // Anything that can follow `Bearer` in a header.
    pattern: '^[!-~]*$',
    default: '',
    unset: 'none; /metrics is 404',
    meaning: 'token that /metrics requires as "Authorization: Bearer"',
  },
  LOG_LEVEL: {
    type: 'string',
    enum: LEVELS,
    default: 'info',
    meaning: `least severe level that is logged: ${LEVELS.join(', ')}`,
  },
} as const satisfies Record<string, Variable>

interface Variable {
  type: 'string' | 'integer'
  default: string | number
  /** Describes what an empty default means. */
  unset?: string
  meaning: string
  minimum?: number
  maximum?: number
  pattern?: string
  enum?: string[]
}

type Environment = {
  [Name in keyof typeof variables]: (typeof variables)[Name]['type'] extends 'integer' ? number : string
}

/** Returns every variable with its default in words and its meaning. */
export function describeVariables(): { name: string; default: string; meaning: string }[] {
  return Object.entries<Variable>(variables).map(([name, variable]) => ({
    name,
    default: variable.unset ?? String(variable.default),
    meaning: variable.meaning,
  }))
}

/**
 * Reads the configuration. A variable that is set but empty counts as not set.
 *
 * @throws ConfigError naming the variable that is wrong
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const data = Object.fromEntries(
    Object.keys(variables)
      .filter((name) => environment[name])
      .map((name) => [name, environment[name]]),
  )
  const env = validate(data)
  return {
    host: env.HOST,
    port: env.PORT,
    dataDir: resolve(env.DATA_DIR),
    databaseUrl: readDatabaseUrl('DATABASE_URL', env.DATABASE_URL),
    poolSize: env.DATABASE_POOL,
    maxContexts: env.MAX_CONTEXTS,
    stalledAfter: readDuration('STALLED_AFTER', env.STALLED_AFTER) / 1000,
    publicUrl: readOrigin(env.PUBLIC_URL),
    trustedProxies: readProxies(env.TRUSTED_PROXIES),
    budget: { limit: env.AUTH_FAILURE_LIMIT, window: env.AUTH_FAILURE_WINDOW },
    git: {
      maxBytes: env.GIT_MAX_BYTES,
      timeout: env.GIT_TIMEOUT * 1000,
      maxChildren: env.GIT_MAX_CHILDREN,
    },
    spoolBytes: env.SPOOL_MAX_BYTES,
    metricsToken: env.METRICS_TOKEN || null,
    logLevel: env.LOG_LEVEL,
  }
}

const schema = { type: 'object', properties: variables }
const ajv = new Ajv({
  allErrors: true,
  coerceTypes: true,
  useDefaults: true,
  // Compiling the meta-schema would slow down every start.
  validateSchema: false,
  keywords: ['unset', 'meaning'],
})

function validate(data: Record<string, string | undefined>): Environment {
  for (const [name, { type }] of Object.entries(variables)) {
    // The validator accepts `Infinity` and `1e400` as integers where there is no upper limit.
    const text = data[name]
    if (type === 'integer' && text && !/^-?\d{1,15}$/.test(text))
      throw new ConfigError(`${name} must be a whole number; got "${text}"`)
  }
  // The validator converts the values and adds the defaults in place.
  const environment: unknown = data
  if (ajv.validate<Environment>(schema, environment)) return environment
  throw new ConfigError(explain(ajv.errorsText(ajv.errors, { dataVar: 'env' })))
}

/** Returns the validator's message, which reads `env/PORT must be integer`, in our words. */
function explain(message: string): string {
  return message
    .replace(
      /env\/(\w+) must be equal to one of the allowed values/,
      `env/$1 must be one of ${LEVELS.join(', ')}`,
    )
    .replace(/env\/(\w+) must match pattern .*/, 'env/$1 must be printable ASCII without spaces')
    .replace(/must be >= (\d+)/, 'must be $1 or more')
    .replace(/must be <= (\d+)/, 'must be $1 or less')
    .replaceAll('env/', '')
}

/**
 * Returns the URL of a PostgreSQL database, or null where `text` is empty.
 *
 * @throws ConfigError naming the variable; never with its value, which may hold a password
 */
export function readDatabaseUrl(variable: string, text: string | undefined): string | null {
  if (!text) return null
  if (isDatabaseUrl(text)) return text
  throw new ConfigError(`${variable} must be a URL such as postgres://user:password@host:5432/database`)
}

function isDatabaseUrl(text: string): boolean {
  try {
    return /^postgres(ql)?:\/\//i.test(text) && parse(text).host !== undefined
  } catch {
    return false
  }
}

/** Returns milliseconds. @throws ConfigError unless `text` is a duration of at least a second and at most ten years */
function readDuration(variable: string, text: string): number {
  const duration = parseDuration(text)
  if (duration >= 1_000 && duration <= MAX_DURATION) return duration
  throw new ConfigError(
    `${variable} must be a duration such as 90s, 30m, 1h or 2d, at least 1s and at most 3650d; got "${text}"`,
  )
}

function readOrigin(text: string): string | null {
  if (text === '') return null
  const url = URL.parse(text)
  const isOrigin =
    url && /^https?:$/.test(url.protocol) && `${url.origin}/` === url.href && !text.includes('@')
  if (!isOrigin)
    throw new ConfigError('PUBLIC_URL must be an origin such as https://status.example.org, without a path')
  return url.origin
}

function readProxies(text: string): TrustedProxies {
  const entries = text.split(',').map((entry) => entry.trim())
  return entries.filter(Boolean).map((entry) => {
    try {
      return parseCidr(entry)
    } catch {
      throw new ConfigError(
        `TRUSTED_PROXIES must be CIDRs such as 10.0.0.0/8, separated by commas; got "${entry}"`,
      )
    }
  })
}
