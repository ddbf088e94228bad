import { type ParseArgsConfig, parseArgs } from 'node:util'
import { UsageError } from './usage-error.ts'

/**
 * Parses arguments with node:util's parseArgs.
 *
 * @throws UsageError for an unknown option or a missing value
 */
export function parse<const Config extends ParseArgsConfig>(config: Config) {
  try {
    return parseArgs(config)
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/**
 * Returns the commit given by `--sha` or as a positional argument.
 *
 * @throws UsageError when there is more than one
 */
export function oneCommit(option: string | undefined, positionals: readonly string[]): string | undefined {
  const given = [...(option === undefined ? [] : [option]), ...positionals]
  if (given.length > 1) throw new UsageError(`expected one commit, got ${given.length}: ${given.join(', ')}`)
  return given[0]
}
