import { resolve } from 'node:path'
import type { Ajv } from 'ajv'
import envSchema from 'env-schema'
import { parse } from 'pg-connection-string'
import { parseCidr, type TrustedProxies } from './auth/address.ts'
import type { BudgetOptions } from './auth/budget.ts'
import type { GitLimits } from './git-http/serve.ts'

/** How the server is run, from the environment. */
export interface Config {
  host: string
  port: number
  dataDir: string
  /** A PostgreSQL database; null: SQLite in `dataDir`. Holds a password: never to be shown. */
  databaseUrl: string | null
  /** Most connections to PostgreSQL. */
  poolSize: number
  /** Contexts that a commit may have. */
  maxContexts: number
  /** The origin that people use; null: that of the request. */
  publicUrl: string | null
  trustedProxies: TrustedProxies
  budget: BudgetOptions
  git: Pick<GitLimits, 'maxBytes' | 'timeout' | 'maxChildren'>
  /** What `/metrics` demands; null: there is no such page. */
  metricsToken: string | null
  logLevel: string
}

/** A variable holds what it must not; the message names it. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']
const schema = {
  type: 'object',
  properties: {
    HOST: { type: 'string', default: '127.0.0.1' },
    PORT: { type: 'integer', minimum: 0, maximum: 65_535, default: 3000 },
    DATA_DIR: { type: 'string', default: './data' },
    DATABASE_URL: { type: 'string', default: '' },
    DATABASE_POOL: { type: 'integer', minimum: 1, maximum: 1000, default: 10 },
    MAX_CONTEXTS: { type: 'integer', minimum: 1, maximum: 1_000_000_000, default: 2_000 },
    PUBLIC_URL: { type: 'string', default: '' },
    TRUSTED_PROXIES: { type: 'string', default: '' },
    AUTH_FAILURE_LIMIT: { type: 'integer', minimum: 1, maximum: 1_000_000_000, default: 30 },
    AUTH_FAILURE_WINDOW: { type: 'integer', minimum: 1, maximum: 1_000_000_000, default: 300 },
    GIT_MAX_BYTES: { type: 'integer', minimum: 1, default: 2 * 1024 ** 3 },
    // A timer of Node holds no more milliseconds.
    GIT_TIMEOUT: { type: 'integer', minimum: 1, maximum: 2_147_483, default: 600 },
    GIT_MAX_CHILDREN: { type: 'integer', minimum: 1, default: 16 },
    // Anything that can stand in a header after `Bearer`.
    METRICS_TOKEN: { type: 'string', pattern: '^[!-~]*$', default: '' },
    LOG_LEVEL: { type: 'string', enum: LEVELS, default: 'info' },
  },
} as const

/** Names of all that the configuration is read from. */
export const variables = Object.keys(schema.properties)

interface Environment {
  HOST: string
  PORT: number
  DATA_DIR: string
  DATABASE_URL: string
  DATABASE_POOL: number
  MAX_CONTEXTS: number
  PUBLIC_URL: string
  TRUSTED_PROXIES: string
  AUTH_FAILURE_LIMIT: number
  AUTH_FAILURE_WINDOW: number
  GIT_MAX_BYTES: number
  GIT_TIMEOUT: number
  GIT_MAX_CHILDREN: number
  METRICS_TOKEN: string
  LOG_LEVEL: string
}

/**
 * Reads the configuration. A variable that is set but empty counts as not set.
 *
 * @throws ConfigError naming the variable that is wrong
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const data = Object.fromEntries(
    variables.filter((name) => environment[name]).map((name) => [name, environment[name]]),
  )
  const env = validate(data)
  return {
    host: env.HOST,
    port: env.PORT,
    dataDir: resolve(env.DATA_DIR),
    databaseUrl: readDatabaseUrl('DATABASE_URL', env.DATABASE_URL),
    poolSize: env.DATABASE_POOL,
    maxContexts: env.MAX_CONTEXTS,
    publicUrl: readOrigin(env.PUBLIC_URL),
    trustedProxies: readProxies(env.TRUSTED_PROXIES),
    budget: { limit: env.AUTH_FAILURE_LIMIT, window: env.AUTH_FAILURE_WINDOW },
    git: {
      maxBytes: env.GIT_MAX_BYTES,
      timeout: env.GIT_TIMEOUT * 1000,
      maxChildren: env.GIT_MAX_CHILDREN,
    },
    metricsToken: env.METRICS_TOKEN || null,
    logLevel: env.LOG_LEVEL,
  }
}

function validate(data: Record<string, string | undefined>): Environment {
  for (const [name, { type }] of Object.entries(schema.properties)) {
    // The validator would take `Infinity` and `1e400` for integers without an upper limit.
    const text = data[name]
    if (type === 'integer' && text && !/^-?\d{1,15}$/.test(text))
      throw new ConfigError(`${name} must be a whole number; got "${text}"`)
  }
  try {
    return envSchema<Environment>({ schema, data, env: false, dotenv: false, ajv: { customOptions } })
  } catch (error) {
    throw new ConfigError(explain(error))
  }
}

/** The schema above is right or wrong once and for all: it is not validated at each start. */
function customOptions(ajv: Ajv): Ajv {
  ajv.opts.validateSchema = false
  return ajv
}

/** env-schema speaks of `env/PORT must be integer`. */
function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
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
 * The address of a PostgreSQL database. An empty one counts as not set.
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
        `TRUSTED_PROXIES must be CIDRs such as 10.0.0.0/8, separated by commas; "${entry}" is none`,
      )
    }
  })
}
