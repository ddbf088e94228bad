import type { components } from '../../generated/schema.ts'
import { matchesPattern } from '../util/pattern.ts'

/** What required checks depend on. */
type ReportedContext = Pick<components['schemas']['Status'], 'context' | 'state'>

/** Longest name in a reason, in code points, and the most reasons that are spelled out. */
const MAX_NAME = 100
const MAX_REASONS = 3
/** Characters that could change how a terminal or page shows the text around them. */
const HIDDEN = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\u200b\u2060\ufeff]/gu
const WORDS = { pending: 'is pending', failure: 'reported failure', error: 'reported error' }

/**
 * Says in one line why a commit does not meet required checks: `ci/test has not reported, lint is pending`. Returns null if it
 * does: each pattern matches a context, and all contexts that a pattern matches are `success`.
 *
 * @param reported ordered by the code points of `context`
 */
export function unmetChecks(
  reported: readonly ReportedContext[],
  patterns: readonly string[],
): string | null {
  const missing = patterns.filter(
    (pattern) => !reported.some(({ context }) => matchesPattern(pattern, context)),
  )
  const unmet: string[] = missing.map((pattern) => `${shown(pattern)} has not reported`)
  for (const { context, state } of reported) {
    if (state !== 'success' && patterns.some((pattern) => matchesPattern(pattern, context)))
      unmet.push(`${shown(context)} ${WORDS[state]}`)
  }
  if (unmet.length === 0) return null
  const more = unmet.length - MAX_REASONS
  return unmet.slice(0, MAX_REASONS).join(', ') + (more > 0 ? `, and ${more} more` : '')
}

function shown(name: string): string {
  const points = [...name.replace(HIDDEN, '\ufffd')]
  return points.length > MAX_NAME ? `${points.slice(0, MAX_NAME - 1).join('')}…` : points.join('')
}
