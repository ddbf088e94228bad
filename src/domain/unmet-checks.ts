import { COMBINED } from '../store/states.ts'
import { replaceHidden } from '../util/hidden-characters.ts'
import { truncate } from '../util/truncate.ts'
import { type ReportedContext, verdictOf } from './verdict.ts'

/** Maximum length of a name in a reason, in code points, and maximum number of reasons that are spelled out. */
const MAX_NAME = 100
const MAX_REASONS = 3

/**
 * Describes in one line why a commit does not meet required checks: `ci/test has not reported, lint is pending`. Returns
 * null if its verdict is `success`.
 *
 * @param reported and `patterns` as `verdictOf` takes them; at least one pattern
 */
export async function describeUnmetChecks(
  reported: readonly ReportedContext[],
  patterns: readonly string[],
): Promise<string | null> {
  const { verdict, required } = await verdictOf(reported, patterns)
  if (verdict === 'success') return null
  const contexts = new Set(required.flatMap((pattern) => pattern.contexts))
  const unmet = [
    ...required
      .filter(({ state }) => state === null)
      .map(({ pattern }) => `${shown(pattern)} has not reported`),
    ...reported
      .filter(({ context, state }) => COMBINED[state] !== 'success' && contexts.has(context))
      .map(
        ({ context, state }) =>
          `${shown(context)} ${COMBINED[state] === 'pending' ? 'is' : 'reported'} ${state}`,
      ),
  ]
  const more = unmet.length - MAX_REASONS
  return unmet.slice(0, MAX_REASONS).join(', ') + (more > 0 ? `, and ${more} more` : '')
}

function shown(name: string): string {
  return truncate(replaceHidden(name), MAX_NAME)
}
