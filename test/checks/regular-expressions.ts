import { check } from 'recheck'
import { findShippedExpressions } from './find-regular-expressions.ts'

/**
 * Fails unless every regular expression in the shipped code takes linear time for any input: with
 * one that does not, a single request could block the server. Part of `npm run check`.
 */
const TIMEOUT = 60_000
/** Steps decide, which are the same on a busy machine. What takes too long counts as an attack. */
const UNTIMED = { seedingTimeout: null, incubationTimeout: null, attackTimeout: null }

const problems: string[] = []
const expressions = findShippedExpressions()
for (const { place, source, flags } of expressions) {
  if (source === null) {
    problems.push(`${place}: built at run time, which cannot be checked; write it as a literal`)
    continue
  }
  const result = await check(source, flags, { timeout: TIMEOUT, ...UNTIMED })
  if (result.status === 'safe') continue
  const reason =
    result.status === 'vulnerable'
      ? `takes ${result.complexity.type} time`
      : 'could not be shown to be linear'
  problems.push(`${place}: /${source}/${flags} ${reason}; simplify it, or use string functions`)
}
if (expressions.length === 0) problems.push('no regular expressions found; check the paths that are searched')
for (const problem of problems) process.stderr.write(`${problem}\n`)
// recheck keeps the process alive.
process.exit(problems.length === 0 ? 0 : 1)
