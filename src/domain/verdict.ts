import type { components } from '../../generated/schema.ts'
import { patternMatcher } from './patterns.ts'
import { combinedState } from './states.ts'

export type CommitVerdict = components['schemas']['CommitVerdict']
/** What a verdict depends on. */
export type ReportedContext = Pick<components['schemas']['Status'], 'context' | 'state'>

/**
 * Decides whether a commit has passed its required checks. The first rule that holds wins:
 *
 * 1. A required context is `failure` or `error`: `failure`.
 * 2. A required context is `pending`, or a pattern matches none: `pending`.
 * 3. Otherwise `success`.
 *
 * Without patterns all contexts are required, and there must be one.
 *
 * @param reported ordered by the code points of `context`
 * @param patterns without duplicates
 */
export function verdictOf(reported: readonly ReportedContext[], patterns: readonly string[]): CommitVerdict {
  const required = patterns.map((pattern) => {
    const matches = patternMatcher(pattern)
    const matching = reported.filter(({ context }) => matches(context))
    return { pattern, state: stateOf(matching), contexts: matching.map(({ context }) => context) }
  })

  const state = stateOf(reported)
  const requiredStates = patterns.length === 0 ? [state] : required.map((pattern) => pattern.state)
  // A required check that has not reported counts as pending.
  const verdict = combinedState(requiredStates.map((requiredState) => requiredState ?? 'pending'))
  return { verdict: verdict ?? 'pending', state, required }
}

function stateOf(reported: readonly ReportedContext[]) {
  return combinedState(reported.map(({ state }) => state))
}
