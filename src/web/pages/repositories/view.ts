import type { ReadableRepository } from '../../../store/access/access.ts'
import { authorship, failures, pill, type SummarizedCommit, subjectOf } from '../../parts/commit-row.ts'
import { type Html, html } from '../../parts/html.ts'
import { type BranchVerdict, verdictWords } from '../../parts/verdicts.ts'

/** Why a row has no commit. */
export type Problem = 'empty' | 'unavailable' | 'slow'
export type RepositoryRow = { repository: ReadableRepository } & (
  | (SummarizedCommit & { verdict: BranchVerdict | undefined })
  | { problem: Problem }
)

/** A page of the repositories that a user may see. */
export interface RepositoriesView {
  rows: readonly RepositoryRow[]
  /** The last repository of this page, if there are more. */
  last: ReadableRepository | undefined
  isSignedIn: boolean
}

/** Renders repositories with the state of their default branches. */
export function repositoriesView({ rows, last, isSignedIn }: RepositoriesView): Html {
  const empty = isSignedIn
    ? html`<p class="empty">You do not have access to any repositories. An administrator creates one with
        <code>repo create OWNER/NAME</code>.</p>`
    : html`<p class="empty">There are no public repositories. <a href="/login">Sign in</a> to see yours.</p>`
  return html`<h1>Repositories</h1>
${rows.length === 0 ? empty : html`<ul class="list">${rows.map(repositoryItem)}</ul>`}
${last ? html`<p><a href="/?after=${encodeURIComponent(`${last.owner}/${last.name}`)}">More repositories</a></p>` : ''}`
}

const PROBLEMS: Record<Problem, Html | string> = {
  empty: 'Nothing has been pushed yet.',
  unavailable: 'The files of this repository cannot be opened. The server’s log has the reason.',
  slow: 'Reading this repository takes long. Reload this page in a few seconds.',
}

function repositoryItem(row: RepositoryRow): Html {
  const { owner, name, visibility } = row.repository
  const badge =
    'commit' in row
      ? pill(row.summary)
      : html`<span class="badge unreported">${row.problem === 'slow' ? 'unknown' : row.problem}</span>`
  return html`<li class="commit" id="r-${row.repository.id}">
  ${badge}
  <span><a href="/${owner}/${name}"><span class="faint">${owner} /</span> <strong>${name}</strong></a>
    ${visibility === 'private' ? html`<span class="badge">private</span>` : ''}</span>
  ${
    'commit' in row
      ? html`<span class="faint">${failures(row.summary)}${unmet(row.verdict)}<a href="/${owner}/${name}/commits/${row.commit.sha}">${subjectOf(row.commit)}</a> · ${authorship(row.commit)}</span>`
      : html`<span class="faint">${PROBLEMS[row.problem]}</span>`
  }
</li>`
}

/** Renders what the default branch waits for. */
function unmet(verdict: BranchVerdict | undefined): Html | string {
  if (!verdict || verdict.reason === null) return ''
  return html`<span class="unmet">${verdictWords(verdict)}</span> · `
}
