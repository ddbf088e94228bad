import { ServiceError } from '../errors.ts'
import { matchesPattern } from '../util/pattern.ts'

/**
 * Checks that a token may report a context.
 *
 * @param patterns to which the token is limited; null: it is not limited
 * @throws ServiceError that names the context and the patterns
 */
export function checkContext(patterns: readonly string[] | null, context: string): void {
  if (patterns === null || patterns.some((pattern) => matchesPattern(pattern, context))) return
  throw new ServiceError(
    'token_excludes_context',
    `This token may not report the context ${JSON.stringify(context)}. ` +
      `It is limited to contexts that match ${patterns.map((pattern) => JSON.stringify(pattern)).join(' or ')}.`,
  )
}
