import { resolve } from 'node:path'
import envSchema from 'env-schema'

/** How the server is run, from the environment. */
export interface Config {
  host: string
  port: number
  dataDir: string
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
    LOG_LEVEL: { type: 'string', enum: LEVELS, default: 'info' },
  },
} as const

interface Environment {
  HOST: string
  PORT: number
  DATA_DIR: string
  LOG_LEVEL: string
}

/**
 * Reads the configuration. A variable that is set but empty counts as not set.
 *
 * @throws ConfigError naming the variable that is wrong
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const data = Object.fromEntries(
    Object.keys(schema.properties)
      .filter((name) => environment[name])
      .map((name) => [name, environment[name]]),
  )
  const env = validate(data)
  return { host: env.HOST, port: env.PORT, dataDir: resolve(env.DATA_DIR), logLevel: env.LOG_LEVEL }
}

function validate(data: Record<string, string | undefined>): Environment {
  try {
    return envSchema<Environment>({ schema, data, env: false, dotenv: false })
  } catch (error) {
    throw new ConfigError(explain(error))
  }
}

/** env-schema speaks of `env/PORT must be integer`. */
function explain(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message
    .replace(
      /env\/(\w+) must be equal to one of the allowed values/,
      `env/$1 must be one of ${LEVELS.join(', ')}`,
    )
    .replaceAll('env/', '')
}
