import { schemas } from '../../../generated/schemas.ts'
import { type CombinedState, combinedState } from '../../domain/states.ts'
import type { ExplainedVerdict } from '../../domain/verdict.ts'
import type { Commit } from '../../git/history/log-reader.ts'
import type { StatusSummary } from '../../store/statuses/status-summaries.ts'
import { type Html, html } from '../text/html.ts'
import { formatAge, shownText } from '../text/text.ts'
import { stateIcon } from './state-summary.ts'

/** A commit in a list, with a summary of its statuses. */
export interface SummarizedCommit {
  commit: Commit
  summary: StatusSummary
}

/** Returns the combined state of a commit, or null if nothing has been reported. */
export function stateOfSummary({ counts }: StatusSummary): CombinedState | null {
  return combinedState(schemas.State.enum.filter((state) => counts[state] > 0))
}

/**
 * Returns the state that is shown beside verdicts on a commit: a success that one of them does not accept is
 * pending. null if nothing has been reported.
 */
export function stateBeside(
  verdicts: readonly Pick<ExplainedVerdict, 'unmet'>[],
  summary: StatusSummary,
): CombinedState | null {
  const state = stateOfSummary(summary)
  return state === 'success' && verdicts.some(({ unmet }) => unmet.length > 0) ? 'pending' : state
}

/** Renders the combined state of a commit. */
export function iconOf(summary: StatusSummary): Html {
  return stateIcon(stateOfSummary(summary))
}

/** Renders the subject of a commit. */
export function subjectOf({ subject }: Pick<Commit, 'subject'>): Html {
  return subject ? shownText(subject) : html`<em>no message</em>`
}

/** Renders who wrote a commit, and when. */
export function authorship({ author, date }: Pick<Commit, 'author' | 'date'>): Html {
  return html`${shownText(author)}${date ? html` · ${formatAge(date)}` : ''}`
}
