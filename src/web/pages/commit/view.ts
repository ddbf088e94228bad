import { shortId } from '../../../domain/commit-id.ts'
import type { failingSince } from '../../../domain/failing-since.ts'
import { combinedCounts } from '../../../domain/states.ts'
import type { CommitDetails } from '../../../git/history/revision.ts'
import type { Ref } from '../../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import { truncate } from '../../../util/truncate.ts'
import { reportCommand } from '../../parts/ci-lines.ts'
import { authorship, subjectOf } from '../../parts/commit-row.ts'
import { repositoryHead } from '../../parts/find-commit.ts'
import { type Html, html } from '../../parts/html.ts'
import { refQuery } from '../../parts/ref-chooser.ts'
import { type Summary, stateBadge, summarize, withVerdict } from '../../parts/state-summary.ts'
import { filterForm, filterQuery, isFiltered } from '../../parts/status-filter.ts'
import { checksOf, type StatusList, statusSections } from '../../parts/status-sections.ts'
import { copyButton, shownLines, shownText } from '../../parts/text.ts'
import { verdictLines } from '../../parts/verdicts.ts'
import type { Places } from './places.ts'

/** A commit as its page shows it. */
export interface CommitView {
  repository: ReadableRepository
  sha: string
  /** undefined if git does not have the commit, null if the repository's files cannot be opened. */
  details: CommitDetails | undefined | null
  /** null if git cannot read the repository. */
  places: Places | null
  statuses: StatusList
  /** The public origin. */
  origin: string
}

/** Code points of a subject in a heading. The message has the rest. */
const SUBJECT = 200
/** Branches and tags that are shown. */
const REFS = 10
/** Statuses from which on the page offers a filter. */
const FILTERED_FROM = 10

/** Renders a commit and all its statuses. */
export function commitView(view: CommitView): Html {
  const { repository, sha, details, places, statuses } = view
  const total = totalOf(statuses)
  return html`${repositoryHead(repository, places ? refQuery(places.all, places.branches[0] ?? null) : '')}
<h1>${details ? subject(details) : html`Commit <code>${shortId(sha)}</code>`}</h1>
<div class="byline">
  <span class="nowrap"><code id="sha" class="sha">${sha}</code> ${copyButton('sha', 'the commit id')}</span>
  ${details ? byline(repository, details) : ''}
  ${details === undefined ? html`<span class="faint">no longer in git</span>` : ''}
  ${details === null ? html`<span class="faint">The repository’s files cannot be opened right now.</span>` : ''}
</div>
${details && fullMessage(details) !== '' ? messageView(details) : ''}
${liveRegion(view)}${total === 0 && repository.permission === 'write' ? howToReport(view) : ''}`
}

/** Renders the part of the page that changes after reports and pushes. The script of the page replaces it. */
export function liveRegion(view: Omit<CommitView, 'details' | 'origin'>): Html {
  const { repository, sha, places, statuses } = view
  const { owner, name } = repository
  const { counts, filter, required, verdicts } = statuses
  const { tab, icon, text } = summaryOf(view)
  const combined = summarize(counts, required.missing.size)
  const isPending = combinedCounts(counts).pending > 0 || required.missing.size > 0
  const path = `/${owner}/${name}/live/${sha}${filterQuery(filter)}`
  return html`<div id="live" data-path="${path}" data-tab="${tab}" data-icon="${icon}"
  data-summary="${text}" ${isPending ? 'data-pending' : ''}>
${verdictLines(statuses)}
<p class="${verdicts.length > 0 ? 'combined' : 'summary'}" id="summary">${verdicts.length > 0 ? 'Combined state: ' : ''}${stateBadge(combined.state)} ${combined.text}</p>
${places ? refLinks(repository, sha, places) : ''}
${totalOf(statuses) >= FILTERED_FROM || isFiltered(filter) ? filterForm(filter, checksOf(statuses)) : ''}
${totalOf(statuses) === 0 ? html`<p class="empty">No statuses have been reported for this commit.</p>` : ''}${statusSections(statuses)}</div>`
}

/**
 * Returns the verdict on a commit in a few words: that for the most important branch or, without rules, its combined state.
 * `tab` is the title of the browser's tab.
 */
export function summaryOf({
  repository,
  sha,
  statuses: { counts, required, verdicts },
}: Pick<CommitView, 'repository' | 'sha' | 'statuses'>): Summary & { tab: string } {
  const summary = withVerdict(summarize(counts, required.missing.size), verdicts[0])
  return { ...summary, tab: `${summary.short} · ${repository.name}@${shortId(sha)}` }
}

function totalOf({ counts }: StatusList): number {
  return combinedCounts(counts).total
}

/** Renders the subject of a commit, or that it has none. */
function subject({ subject }: CommitDetails): Html {
  return subjectOf({ subject: truncate(subject, SUBJECT) })
}

function byline(
  { owner, name }: ReadableRepository,
  { author, date, parents, moreParents }: CommitDetails,
): Html {
  return html`<span>${authorship({ author, date })}</span>
  <span class="faint">${parents.length === 0 ? 'no parents' : parents.length === 1 ? 'parent' : 'parents'}
  ${parents.map((id) => html`<a href="/${owner}/${name}/commits/${id}"><code>${shortId(id)}</code></a> `)}${moreParents ? 'and more' : ''}</span>`
}

/** Renders links to the branches that contain a commit and the tags that point to it. */
function refLinks(
  { owner, name }: ReadableRepository,
  sha: string,
  { all, branches, tags }: Places,
): Html | string {
  const refs = [...branches, ...tags]
  if (refs.length === 0) return ''
  const newest = (tip: string) =>
    tip === sha
      ? 'newest commit'
      : html`newer: <a href="/${owner}/${name}/commits/${tip}"><code>${shortId(tip)}</code></a>`
  const branch = (ref: Ref) =>
    html`${newest(ref.sha)} · <a href="/${owner}/${name}/checks${refQuery(all, ref)}">checks<span class="sr"> of ${shownText(ref.name)}</span></a>`
  const more = refs.length - REFS
  return html`<div class="byline">${refs
    .slice(0, REFS)
    .map(
      (ref) =>
        html`<span><a class="ref-link" href="/${owner}/${name}${refQuery(all, ref)}"><span class="sr">${ref.kind} </span>${shownText(ref.name)}</a> ${ref.kind === 'branch' ? branch(ref) : ''}</span> `,
    )}${more > 0 ? html`<span>and ${more} more</span>` : ''}</div>`
}

/** Renders since when a check fails in a history, the newest commit first. @param branch null for the history of the commit */
export function sinceView(
  { owner, name }: ReadableRepository,
  branch: string | null,
  shas: readonly string[],
  { first, length, neverPassed }: ReturnType<typeof failingSince>,
): Html {
  const sha = shas[first] ?? ''
  // The history says nothing about a check that only this commit has.
  if (branch === null && length === 1 && neverPassed) return html``
  const where = branch === null ? '' : html` on ${shownText(branch)}`
  if (length === 0)
    return html`<span class="faint">${neverPassed ? 'Not completed' : 'Passes'}${where}</span>`
  const ago =
    first === 0
      ? ''
      : `, ${first} ${first === 1 ? 'commit' : 'commits'} before ${branch === null ? 'this one' : 'its newest one'}`
  return html`<span class="faint">Fails${where} since <a href="/${owner}/${name}/commits/${sha}"><code>${shortId(sha)}</code></a>${ago}${neverPassed ? ' or earlier' : ''}</span>`
}

/** Returns the part of the message that the heading does not show; all of it if the heading shows only a part of the subject. */
function fullMessage({ subject, body }: CommitDetails): string {
  return truncate(subject, SUBJECT) === subject ? body : `${subject}\n\n${body}`.trim()
}

function messageView(details: CommitDetails): Html {
  return html`<details class="message"><summary>Message</summary>
${shownLines(fullMessage(details))}${details.isCut ? html`<p class="faint">The rest of this message is too long to be shown.</p>` : ''}</details>`
}

/** Renders how to report a status. */
function howToReport({ repository, sha, origin }: CommitView): Html {
  const { owner, name } = repository
  const command = reportCommand(origin, `${owner}/${name}/statuses/${sha}`, '$COMMIT_STATUS_TOKEN')
  return html`<p>Report one with a <a href="/settings/tokens">token</a> in <code>COMMIT_STATUS_TOKEN</code>:</p>
<div class="copy"><pre id="report" tabindex="0">${command}</pre>${copyButton('report', 'the command')}</div>`
}

/** Renders the commits that an ambiguous short id may mean. */
export function candidatesView(
  repository: ReadableRepository,
  { id, more }: { id: string; more: boolean },
  candidates: Pick<CommitView, 'sha' | 'details'>[],
): Html {
  const { owner, name } = repository
  return html`${repositoryHead(repository)}
<h1>Several commits begin with <code>${id}</code></h1>
<ul class="list">${candidates.map(
    ({ sha, details }) => html`<li><a href="/${owner}/${name}/commits/${sha}"><code>${sha}</code></a>
  ${details ? html`<br>${subject(details)} <span class="faint">${authorship(details)}</span>` : ''}</li>`,
  )}</ul>
${more ? html`<p class="faint">There are more. Use a longer id.</p>` : ''}`
}
