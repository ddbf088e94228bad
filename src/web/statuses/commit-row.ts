import { schemas } from '../../../generated/schemas.ts'
import { type CombinedState, combinedCounts, combinedState } from '../../domain/states.ts'
import type { Commit } from '../../git/history/log-reader.ts'
import type { FailedContext, StatusSummary } from '../../store/statuses/status-summaries.ts'
import { truncate } from '../../util/truncate.ts'
import { type Html, html } from '../parts/html.ts'
import { enumerate, formatAge, shownText, targetLink, visibleText } from '../parts/text.ts'
import { stateBadge } from './state-summary.ts'

/** A commit in a list, with a summary of its statuses. */
export interface SummarizedCommit {
  commit: Commit
  summary: StatusSummary
}

/** Returns the combined state of a commit, or null if nothing has been reported. */
export function stateOfSummary({ counts }: StatusSummary): CombinedState | null {
  return combinedState(schemas.State.enum.filter((state) => counts[state] > 0))
}

/** Renders the combined state of a commit. */
export function pill(summary: StatusSummary): Html {
  return stateBadge(stateOfSummary(summary))
}

/** Renders what failed on a commit. */
export function failures(summary: StatusSummary): Html | string {
  return summary.failed.length > 0
    ? html`<span class="failed">Failed: ${failedContexts(summary)}</span> · `
    : ''
}

/** Code points of a context's name in a list. */
const NAME_LENGTH = 40

/** Renders the contexts that failed with links to their logs: three at most, then "and 4 more". */
export function failedContexts({ counts, failed }: StatusSummary): Html {
  return enumerate(failed.map(contextName), combinedCounts(counts).failure)
}

function contextName({ context, targetUrl }: FailedContext): Html {
  const name = truncate(context, NAME_LENGTH)
  const shownName = shownText(name)
  return targetLink(
    targetUrl,
    name === context ? shownName : html`<span title="${visibleText(context)}">${shownName}</span>`,
  )
}

/** Renders the subject of a commit. */
export function subjectOf({ subject }: Pick<Commit, 'subject'>): Html {
  return subject ? shownText(subject) : html`<em>no message</em>`
}

/** Renders who wrote a commit, and when. */
export function authorship({ author, date }: Pick<Commit, 'author' | 'date'>): Html {
  return html`${shownText(author)}${date ? html` · ${formatAge(date)}` : ''}`
}
