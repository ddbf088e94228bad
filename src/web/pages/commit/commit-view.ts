import type { Session } from '../../../auth/session.ts'
import type { CheckHistory } from '../../../branches/breakages.ts'
import { shortId } from '../../../domain/commit-id.ts'
import { allows } from '../../../domain/permissions.ts'
import { COMBINED, combinedCounts } from '../../../domain/states.ts'
import type { CommitDetails } from '../../../git/history/revision.ts'
import type { Ref } from '../../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { truncate } from '../../../util/truncate.ts'
import { csrfField } from '../../layout/layout.ts'
import { repositoryHead } from '../../layout/repository-head.ts'
import { RUN_AGAIN } from '../../statuses/check-row.ts'
import { answerBox } from '../../statuses/commit-answer.ts'
import { authorship, subjectOf } from '../../statuses/commit-row.ts'
import { FILTERED_FROM, filterForm, isFiltered, matches } from '../../statuses/status-filter.ts'
import { checksOf, type StatusList, statusSections } from '../../statuses/status-sections.ts'
import { reportCommand } from '../../text/ci-lines.ts'
import { type Html, html } from '../../text/html.ts'
import { commitPath, pathOf, refQuery } from '../../text/repository-paths.ts'
import { copyButton, shownLines, shownText } from '../../text/text.ts'
import type { CommitRefs } from './refs-of-commit.ts'

/** A commit as its page shows it. */
export interface CommitView {
  repository: ReadableRepository
  sha: string
  /** undefined if git does not have the commit, null if the repository's files cannot be opened. */
  details: CommitDetails | undefined | null
  /** null if git cannot read the repository. */
  commitRefs: CommitRefs | null
  statuses: StatusList
  /** The public origin. */
  origin: string
  /** Why another run was not asked for, as a sentence. */
  problem?: string | undefined
}

/** Code points of a subject in a heading. The message has the rest. */
const SUBJECT = 200
/** Branches and tags that are shown, and those that are shown when they are unfolded. */
const UNFOLDED = 2
const REFS = 20
/** Where checks are listed. Without the query, the page is not filtered. */
const LISTED = { failed: '?#failed', missing: '?#missing', pending: '?#pending' }

/** Renders a commit and all its statuses. */
export function commitView(view: CommitView): Html {
  const { repository, sha, details, commitRefs, statuses, problem } = view
  const { counts, filter, verdicts } = statuses
  const { total } = combinedCounts(counts)
  const showsFailed = checksOf(statuses).some(
    (check) => check.state !== null && COMBINED[check.state] === 'failure' && matches(check, filter),
  )
  return html`${showsFailed ? html`<a class="skip" href="#failed">Skip to failed checks</a>` : ''}${repositoryHead(repository, { tab: 'commits', shown: commitRefs && { refs: commitRefs.all, ref: commitRefs.branches[0] ?? null } })}
<h1>${details ? subject(details) : html`Commit <code>${shortId(sha)}</code>`}</h1>
<div class="byline">
<span class="nowrap"><code id="sha" class="sha">${sha}</code> ${copyButton('sha', 'the commit id')}</span>
${details ? byline(repository, details) : ''}${details === undefined ? html`<span class="faint">no longer in git</span>` : ''}${details === null ? html`<span class="faint">The repository’s files cannot be opened right now.</span>` : ''}
</div>
${details && fullMessage(details) !== '' ? messageView(details) : ''}
${problem ? html`<p class="error" role="alert">${problem}</p>` : ''}
${answerBox({ repository, sha, summary: { counts, failed: [] }, verdicts, listed: LISTED, note: statuses.reporter })}
${commitRefs ? refLinks(repository, sha, commitRefs) : ''}
${total >= FILTERED_FROM || isFiltered(filter) ? filterForm(filter, checksOf(statuses)) : ''}
${statusSections(statuses)}
${total === 0 && allows(repository.permission, 'write') ? howToReport(view) : ''}`
}

/** Renders the form by which another run of a check is asked for; its buttons are those of the checks. */
export function runAgainForm(session: Session): Html {
  return html`<form id="${RUN_AGAIN}" method="post">${csrfField(session)}</form>`
}

/** Renders the subject of a commit, or that it has none. */
function subject({ subject }: CommitDetails): Html {
  return subjectOf({ subject: truncate(subject, SUBJECT) })
}

function byline(repository: ReadableRepository, { author, date, parents, moreParents }: CommitDetails): Html {
  return html`<span>${authorship({ author, date })}</span>
<span class="faint">${parents.length === 0 ? 'no parents' : parents.length === 1 ? 'parent' : 'parents'}
${parents.map((id) => html`<a href="${commitPath(repository, id)}"><code>${shortId(id)}</code></a> `)}${moreParents ? 'and more' : ''}</span>`
}

/** Renders links to the branches that contain a commit and the tags that point to it. */
function refLinks(
  repository: ReadableRepository,
  sha: string,
  { all, branches, tags }: CommitRefs,
): Html | string {
  const refs = [...branches, ...tags]
  if (refs.length === 0) return ''
  const newest = (tip: string) =>
    tip === sha
      ? 'newest commit'
      : html`newer: <a href="${commitPath(repository, tip)}"><code>${shortId(tip)}</code></a>`
  const branch = (ref: Ref) =>
    html`${newest(ref.sha)} · <a href="${pathOf(repository)}/checks${refQuery(all, ref)}">checks<span class="sr"> of ${shownText(ref.name)}</span></a>`
  const item = (ref: Ref) =>
    html`<span><a class="ref-link" href="${pathOf(repository)}${refQuery(all, ref)}"><span class="sr">${ref.kind} </span>${shownText(ref.name)}</a> ${ref.kind === 'branch' ? branch(ref) : ''}</span> `
  const [folded, more] = [refs.slice(UNFOLDED, REFS), refs.length - REFS]
  return html`<div class="byline">${refs.slice(0, UNFOLDED).map(item)}${
    folded.length > 0
      ? html`<details><summary>and ${refs.length - UNFOLDED} more</summary><div class="byline">${folded.map(item)}${more > 0 ? html`<span>and ${more} more</span>` : ''}</div></details>`
      : ''
  }</div>`
}

/** Renders since when a check fails in a history. @param branch null for that of the commit */
export function sinceView(
  repository: ReadableRepository,
  branch: string | null,
  { breakage, hasPassed }: CheckHistory,
): Html {
  const where = branch === null ? '' : html` on ${shownText(branch)}`
  if (breakage === null) return html`<span>${hasPassed ? 'Passes' : 'Not completed'}${where}</span>`
  const { since, position, length, lastPassed, unchecked } = breakage
  // The history says nothing about a check that only this commit has.
  if (branch === null && length === 1 && lastPassed === null) return html``
  const link = (sha = '') => html`<a href="${commitPath(repository, sha)}"><code>${shortId(sha)}</code></a>`
  const start =
    branch === null && position === 0 ? 'First failed here' : html`Fails${where} since ${link(since)}`
  const ago = position === 0 ? '' : `, ${position} ${position === 1 ? 'commit' : 'commits'} ago`
  const others = unchecked.length - 1
  const gap = html`, after ${link(lastPassed ?? '')}; ${link(unchecked[0])} ${others > 0 ? `and ${others} more were` : 'was'} not checked`
  return html`<span>${start}${ago}${unchecked.length > 0 ? gap : ''}${lastPassed === null ? ' or earlier' : ''}</span>`
}

/** Returns what the heading does not show of the message; all of it if the subject is cut. */
function fullMessage({ subject, body }: CommitDetails): string {
  return truncate(subject, SUBJECT) === subject ? body : `${subject}\n\n${body}`.trim()
}

function messageView(details: CommitDetails): Html {
  return html`<details class="body"><summary>Message</summary>
${shownLines(fullMessage(details))}${details.isCut ? html`<p class="faint">The rest of this message is too long to be shown.</p>` : ''}</details>`
}

/** Renders how to report a status. */
function howToReport({ repository, sha, origin }: CommitView): Html {
  const { owner, name } = repository
  const command = reportCommand(origin, `${owner}/${name}/statuses/${sha}`, '$COMMIT_STATUS_TOKEN')
  return html`<p>Report one with a <a href="/settings/tokens">token</a> in <code>COMMIT_STATUS_TOKEN</code>:</p>
<div class="copy"><pre id="report" tabindex="0">${command}</pre>${copyButton('report', 'the command')}</div>`
}
