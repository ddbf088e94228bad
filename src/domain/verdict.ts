import type { components } from '../../generated/schema.ts'
import { runInSlices } from '../util/run-in-slices.ts'
import { patternMatcher } from './patterns.ts'
import { combinedState } from './states.ts'

export type CommitVerdict = components['schemas']['CommitVerdict']
/** What a verdict depends on. */
export type ReportedContext = Pick<components['schemas']['Status'], 'context' | 'state'>

/** Comparisons of a pattern with a context that are made without slices: they take less than a tenth of a millisecond. */
const UNSLICED_COMPARISONS = 200

/**
 * Decides whether a commit has passed its required checks. The first rule that holds wins:
 *
 * 1. A required context is `failure` or `error`: `failure`.
 * 2. A required context is `pending`, or a pattern matches none: `pending`.
 * 3. Otherwise `success`.
 *
 * Without patterns all contexts are required, and there must be one.
 *
 * Clients choose the patterns, and a commit can have many contexts, so long work is done in slices.
 *
 * @param reported ordered by the code points of `context`
 * @param patterns without duplicates
 */
export async function verdictOf(
  reported: readonly ReportedContext[],
  patterns: readonly string[],
): Promise<CommitVerdict> {
  const required: CommitVerdict['required'] = []
  const decideNext = () => {
    const pattern = patterns[required.length]
    if (pattern === undefined) return false
    const matches = patternMatcher(pattern)
    const matching = reported.filter(({ context }) => matches(context))
    required.push({
      pattern,
      state: stateOfReported(matching),
      contexts: matching.map(({ context }) => context),
    })
    return true
  }
  if (reported.length * patterns.length > UNSLICED_COMPARISONS) await runInSlices(decideNext)
  else while (decideNext());

  const state = stateOfReported(reported)
  const states = patterns.length === 0 ? [state] : required.map((pattern) => pattern.state)
  // Whatever has not been reported is as good as pending.
  return { verdict: combinedState(states.map((known) => known ?? 'pending')) ?? 'pending', state, required }
}

function stateOfReported(reported: readonly ReportedContext[]) {
  return combinedState(reported.map(({ state }) => state))
}
