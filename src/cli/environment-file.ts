import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { callerFolder } from './caller-folder.ts'
import { UsageError } from './usage-error.ts'

/**
 * Returns the environment with the variables of a file like systemd's `EnvironmentFile`. As with Node's `--env-file`, a
 * variable that is set already keeps its value.
 *
 * @throws UsageError when the file cannot be read
 */
export function readEnvironment(file: string | undefined, environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (file === undefined) return environment
  try {
    return { ...parseEnv(readFileSync(resolve(callerFolder(), file), 'utf8')), ...environment }
  } catch (error) {
    throw new UsageError(`--env-file: ${error instanceof Error ? error.message : error}`)
  }
}
