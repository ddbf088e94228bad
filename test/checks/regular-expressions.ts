import { check } from 'recheck'
import { findShippedExpressions } from './find-regular-expressions.ts'

/**
 * Fails unless every regular expression in the code that is shipped takes linear time, whatever it is fed: one that does
 * not lets a single request stop the server. Part of `npm run check`.
 */
const TIMEOUT = 20_000

const faults: string[] = []
const expressions = findShippedExpressions()
for (const { place, source, flags } of expressions) {
  if (source === null) {
    faults.push(`${place}: built at run time, so that it cannot be checked; write it as a literal`)
    continue
  }
  const result = await check(source, flags, { timeout: TIMEOUT })
  if (result.status === 'safe') continue
  const reason =
    result.status === 'vulnerable'
      ? `takes ${result.complexity.type} time`
      : 'could not be shown to be linear'
  faults.push(`${place}: /${source}/${flags} ${reason}; simplify it, or use string functions`)
}
if (expressions.length === 0)
  faults.push('no regular expressions found; the paths that are searched are wrong')
for (const fault of faults) process.stderr.write(`${fault}\n`)
// The checker keeps its process running.
process.exit(faults.length === 0 ? 0 : 1)
