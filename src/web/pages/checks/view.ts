import type { Commit } from '../../../git/history/log.ts'
import type { Ref, Refs } from '../../../git/history/refs.ts'
import type { CheckMatrix, MatrixCell, MatrixColumn } from '../../../store/check-matrix.ts'
import type { ListedRepository } from '../../../store/repository-listing.ts'
import { COMBINED } from '../../../store/states.ts'
import { formatTime } from '../../../store/time.ts'
import { shortId } from '../../../util/commit-id.ts'
import { truncate } from '../../../util/truncate.ts'
import { authorship } from '../../parts/commit-row.ts'
import { type Html, html } from '../../parts/html.ts'
import { refChooser, refQuery } from '../../parts/ref-chooser.ts'
import { age, shownText, targetLink, visibleText } from '../../parts/text.ts'

/** The checks of the newest commits of a ref. */
export interface ChecksView {
  repository: ListedRepository
  refs: Refs
  /** null if HEAD is a branch without commits. */
  ref: Ref | null
  commits: readonly Commit[]
  matrix: CheckMatrix
}

/** Failing contexts that are described above the matrix. */
const DESCRIBED = 5
/** Code points of a subject. The commit page shows the rest. */
const SUBJECT = 72

/** Renders the matrix of checks: a row for each commit, a column for each context. */
export function checksView(view: ChecksView): Html {
  const { repository, refs, ref, matrix } = view
  const { owner, name } = repository
  return html`<p class="crumbs"><a href="/${owner}/${name}${refQuery(refs, ref)}">${owner} / ${name}</a></p>
<div class="titled"><h1>Checks${ref?.name ? html` of ${shownText(ref.name)}` : ''}</h1>
${refs.branches.length + refs.tags.length > 0 ? html`<div>${refChooser(`/${owner}/${name}/checks`, refs, ref, false)}</div>` : ''}</div>
${matrix.columns.length === 0 ? html`<p class="empty">No statuses have been reported for the newest commits.</p>` : matrixView(view)}`
}

function matrixView({ repository, commits, matrix }: ChecksView): Html {
  const failing = matrix.columns.filter((column) => column.failing)
  return html`${failing.length > 0 ? failingView(repository, commits, failing) : html`<p class="lead">No check is failing.</p>`}
<p class="faint" id="legend">The newest commit is first, and failing checks are on the left.${
    matrix.omitted > 0
      ? ` ${matrix.columns.length} checks are shown; ${matrix.omitted.toLocaleString('en')} more are left out.`
      : ''
  }</p>
<div class="matrix" tabindex="0" role="group" aria-label="Checks by commit" aria-describedby="legend"><table>
<thead>
  <tr><th rowspan="2" scope="col">Commit</th>${groupsOf(matrix.columns).map(({ title, length }) =>
    title === ''
      ? html`<td colspan="${length}"></td>`
      : html`<th scope="colgroup" colspan="${length}">${shownText(title)}</th>`,
  )}</tr>
  <tr>${matrix.columns.map(columnHead)}</tr>
</thead>
<tbody>
${commits.map((commit, index) => commitRow(repository, commit, index, matrix.columns))}</tbody></table></div>`
}

/** Renders since when contexts are failing. */
function failingView(
  { owner, name }: ListedRepository,
  commits: readonly Commit[],
  failing: readonly MatrixColumn[],
): Html {
  const item = (column: MatrixColumn) => {
    const { first, length, neverPassed } = failingSince(column)
    const commit = commits[first]
    const count = `${length} ${length === 1 ? 'commit' : 'commits'}${neverPassed ? ', never passed here' : ''}`
    return html`<li><span class="badge failure">failing</span> <strong>${shownText(column.context)}</strong> since
      ${commit ? html`<a href="/${owner}/${name}/commits/${commit.sha}"><code>${shortId(commit.sha)}</code> ${shownText(truncate(commit.subject, SUBJECT))}</a>${commit.date ? html`, ${age(commit.date)}` : ''}` : ''}
      <span class="faint">(${count})</span></li>`
  }
  const more = failing.length - DESCRIBED
  return html`<ul class="failing" aria-label="Failing checks">${failing.slice(0, DESCRIBED).map(item)}
  ${more > 0 ? html`<li class="faint">and ${more} more in the first columns</li>` : ''}</ul>`
}

/**
 * Returns the oldest commit of the failures that lead up to now. Commits on which the check has not completed count neither
 * way.
 *
 * @returns `length` is the number of commits on which it failed; `neverPassed` is true if it passed on no commit of the matrix
 * before, so an older commit may have broken it
 */
export function failingSince({ cells }: Pick<MatrixColumn, 'cells'>): {
  first: number
  length: number
  neverPassed: boolean
} {
  let first = 0
  let length = 0
  for (const [index, cell] of cells.entries()) {
    if (cell === undefined || COMBINED[cell.state] === 'pending') continue
    if (COMBINED[cell.state] === 'success') return { first, length, neverPassed: false }
    first = index
    length++
  }
  return { first, length, neverPassed: true }
}

/** Returns runs of neighboring columns whose contexts begin alike, up to the first slash. */
function groupsOf(columns: readonly MatrixColumn[]): { title: string; length: number }[] {
  const groups: { title: string; length: number }[] = []
  for (const { context } of columns) {
    const title = context.includes('/') ? context.slice(0, context.indexOf('/')) : ''
    const last = groups.at(-1)
    if (last?.title === title) last.length++
    else groups.push({ title, length: 1 })
  }
  return groups
}

function columnHead({ context }: MatrixColumn): Html {
  const rest = context.slice(context.indexOf('/') + 1) || context
  return html`<th scope="col" title="${visibleText(context)}"><span class="context">${shownText(rest)}</span></th>`
}

function commitRow(
  { owner, name }: ListedRepository,
  { sha, subject, author, date }: Commit,
  index: number,
  columns: readonly MatrixColumn[],
): Html {
  return html`<tr><th scope="row"><a href="/${owner}/${name}/commits/${sha}">${subject === '' ? shortId(sha) : shownText(truncate(subject, SUBJECT))}</a>
  <span class="faint"><code>${shortId(sha)}</code> <span class="who">${authorship({ author, date })}</span></span></th>${columns.map(
    ({ context, cells }) => cellView(context, cells[index]),
  )}</tr>
`
}

function cellView(context: string, cell: MatrixCell | undefined): Html {
  if (cell === undefined) return html`<td><span class="sr">no status</span></td>`
  const title = `${visibleText(context)}: ${cell.state}, ${formatTime(cell.updatedAt).replace('T', ' ').replace('Z', ' UTC')}`
  const content = html`<span class="cell" title="${title}">${cell.state}</span>`
  return html`<td class="${COMBINED[cell.state]}">${targetLink(cell.targetUrl, content)}</td>`
}
