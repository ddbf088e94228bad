import { schemas } from '../../../generated/schemas.ts'
import { combinedCounts, combinedState } from '../../domain/combined-state.ts'
import type { Commit } from '../../git/history/log.ts'
import type { CombinedState } from '../../store/states.ts'
import type { StatusSummary } from '../../store/status-summaries.ts'
import { truncate } from '../../util/truncate.ts'
import { type Html, html } from './html.ts'
import { age, shownText, visibleText } from './text.ts'

/** A commit in a list, with a summary of its statuses. */
export interface SummarizedCommit {
  commit: Commit
  summary: StatusSummary
}

/** Returns the combined state of a commit, or null if nothing has been reported. */
export function stateOf({ counts }: StatusSummary): CombinedState | null {
  return combinedState(schemas.State.enum.filter((state) => counts[state] > 0))
}

/** Code points of a context's name in a list. */
const NAME_LENGTH = 40

/** Renders the names of the contexts that failed: three at most, then "and 4 more". */
export function failedContexts({ counts, failed }: StatusSummary): Html {
  const more = combinedCounts(counts).failure - failed.length
  const names = failed.map((context, index) => html`${index > 0 ? ', ' : ''}${contextName(context)}`)
  return html`${names}${more > 0 ? ` and ${more} more` : ''}`
}

function contextName(context: string): Html {
  const name = truncate(context, NAME_LENGTH)
  if (name === context) return shownText(context)
  return html`<span title="${visibleText(context)}">${shownText(name)}</span>`
}

/** Renders the subject of a commit. */
export function subjectOf({ subject }: Commit): Html {
  return subject ? shownText(subject) : html`<em>no message</em>`
}

/** Renders who wrote a commit, and when. */
export function authorship({ author, date }: Pick<Commit, 'author' | 'date'>): Html {
  return html`${shownText(author)}${date ? html` · ${age(date)}` : ''}`
}
