import { type ParseArgsConfig, parseArgs } from 'node:util'
import { suggest } from './help/suggest.ts'
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
    throw new UsageError(describeProblem(error, Object.keys(config.options ?? {})))
  }
}

/** Says what is wrong in one sentence, without Node's advice about positional arguments. */
function describeProblem(error: unknown, names: readonly string[]): string {
  if (!(error instanceof Error)) return String(error)
  const [sentence = ''] = error.message.split(/\.(?: |$)/)
  const [, typed] = /^Unknown option '(--?[^']*)'/.exec(sentence) ?? []
  if (typed === undefined) return sentence
  return `unknown option ${typed}${suggest(
    typed,
    names.map((name) => `--${name}`),
  )}`
}

interface Token {
  kind: string
  name?: string
  value?: string | undefined
}

/**
 * Returns the words from an option up to the next one: `--require ci/build ci/test`. All other
 * words come second.
 */
export function wordsOf(option: string, tokens: readonly Token[]): [words: string[], others: string[]] {
  const words: string[] = []
  const others: string[] = []
  let isAfter = false
  for (const { kind, name, value = '' } of tokens) {
    if (kind === 'option') isAfter = name === option
    if (isAfter || kind === 'positional') (isAfter ? words : others).push(value)
  }
  return [words, others]
}

/**
 * Checks the patterns of `--require`.
 *
 * @throws UsageError if the first report that matches would meet all of them
 */
export function checkRequired(patterns: readonly string[]): void {
  if (patterns.length === 0 || !patterns.every((pattern) => pattern.includes('*'))) return
  throw new UsageError(
    `all patterns of --require contain "*" (${JSON.stringify(patterns).slice(1, -1)}): the first match meets them, whatever ` +
      'has not reported yet; also name a context exactly, such as the one that reports last',
  )
}

/**
 * Returns the branch given by `--onto` or `--branch`.
 *
 * @throws UsageError when both are given
 */
export function oneBranch(onto: string | undefined, branch: string | undefined): string | undefined {
  if (onto === undefined || branch === undefined) return onto ?? branch
  throw new UsageError('--onto and --branch are the same; give one of them')
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
