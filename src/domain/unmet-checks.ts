import { replaceHidden } from '../util/replace-characters.ts'
import { truncate } from '../util/truncate.ts'
import { COMBINED, type CombinedState } from './states.ts'
import { type CommitVerdict, type ReportedContext, verdictOf } from './verdict.ts'

/** Maximum length of a name in code points, and maximum number of reasons that are spelled out. */
const MAX_NAME = 100
const MAX_REASONS = 3

/** A verdict, and why it is not `success`: `ci/test reported failure, lint has not reported`. */
export interface ExplainedVerdict extends Pick<CommitVerdict, 'verdict' | 'required'> {
  /** null if the verdict is `success`. */
  reason: string | null
}

/**
 * Decides whether a commit meets required checks, and says why it does not. What decides the
 * verdict comes first.
 *
 * @param reported and `patterns` as `verdictOf` takes them; at least one pattern
 */
export function explainVerdict(
  reported: readonly ReportedContext[],
  patterns: readonly string[],
): ExplainedVerdict {
  const { verdict, required } = verdictOf(reported, patterns)
  if (verdict === 'success') return { verdict, required, reason: null }

  const contexts = new Set(required.flatMap((pattern) => pattern.contexts))
  const counted = reported.filter(({ context }) => contexts.has(context))
  const described = (combined: CombinedState, verb: string) =>
    counted
      .filter(({ state }) => COMBINED[state] === combined)
      .map(({ context, state }) => `${shown(context)} ${verb} ${state}`)
  const missing = required.filter(({ state }) => state === null)
  const unmet = [
    ...described('failure', 'reported'),
    ...missing.map(({ pattern }) => `${shown(pattern)} has not reported`),
    ...described('pending', 'is'),
  ]

  const more = unmet.length - MAX_REASONS
  const reason = unmet.slice(0, MAX_REASONS).join(', ') + (more > 0 ? `, and ${more} more` : '')
  return { verdict, required, reason }
}

function shown(name: string): string {
  return truncate(replaceHidden(name), MAX_NAME)
}
