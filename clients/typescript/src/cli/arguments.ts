import { type ParseArgsConfig, parseArgs } from 'node:util'
import { UsageError } from './usage-error.ts'

/**
 * node:util's parseArgs with our own error.
 *
 * @throws UsageError for an option that is not known or lacks its value.
 */
export function parse<const Config extends ParseArgsConfig>(config: Config) {
  try {
    return parseArgs(config)
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/**
 * The commit id out of `--sha` and positional arguments.
 *
 * @throws UsageError when there is more than one.
 */
export function oneSha(option: string | undefined, positionals: readonly string[]): string | undefined {
  const given = [...(option === undefined ? [] : [option]), ...positionals]
  if (given.length > 1) throw new UsageError(`one commit at a time, not ${given.join(', ')}`)
  return given[0]
}
