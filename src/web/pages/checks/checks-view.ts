import { shortId } from '../../../domain/commit-id.ts'
import { allows } from '../../../domain/permissions.ts'
import { COMBINED } from '../../../domain/states.ts'
import type { Commit } from '../../../git/history/log-reader.ts'
import type { Ref, Refs } from '../../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { LinkedCell } from '../../../store/statuses/check-matrix.ts'
import type { StatusSummary } from '../../../store/statuses/status-summaries.ts'
import { formatTime } from '../../../store/time.ts'
import { truncate } from '../../../util/truncate.ts'
import { repositoryHead } from '../../layout/repository-head.ts'
import { type Broken, brokenWords } from '../../statuses/broken.ts'
import { answerBox } from '../../statuses/commit-answer.ts'
import { stateIcon } from '../../statuses/state-summary.ts'
import {
  FILTERED_FROM,
  type FilteredCheck,
  filterForm,
  isFiltered,
  type StatusFilter,
} from '../../statuses/status-filter.ts'
import type { BranchVerdict } from '../../statuses/verdicts.ts'
import { type Html, html } from '../../text/html.ts'
import { commitPath, refName } from '../../text/repository-paths.ts'
import { shownName, shownText, targetLink, visibleText } from '../../text/text.ts'

/** The checks of the newest commits of a ref, and the verdicts on the newest one. */
export interface ChecksView {
  verdicts: readonly BranchVerdict[]
  repository: ReadableRepository
  refs: Refs
  /** null if HEAD is a branch without commits. */
  ref: Ref | null
  commits: readonly Commit[]
  /** Who broke the failing contexts of the ref, as far as they are described. */
  broken: readonly Broken[]
  /** Failing contexts that are not described. */
  moreBroken: number
  /** Of the newest commit. */
  summary: StatusSummary
  /** The contexts as they are on the newest commit. */
  checks: readonly FilteredCheck[]
  filter: StatusFilter
  /** The contexts that are shown, with their statuses for each commit. */
  shown: ReadonlyMap<string, readonly (LinkedCell | undefined)[]>
  /** Contexts that match the filter and are not shown. */
  more: number
}

/** Where failing checks are listed. */
const FAILING = { failed: '#failing' }
/** Code points of a subject. The commit page shows the rest. */
const SUBJECT = 72

/** Renders the matrix of checks: a row for each context, a column for each commit. */
export function checksView(view: ChecksView): Html {
  const { repository, refs, ref, checks } = view
  const [tip] = view.commits
  const { owner, name } = repository
  return html`${repositoryHead(repository, { tab: 'checks', shown: { refs, ref }, suggests: true })}
<h1>Checks${ref?.name ? html` of ${shownText(ref.name)}` : ''}</h1>
${tip ? answerBox({ repository, sha: tip.sha, summary: view.summary, verdicts: view.verdicts, listed: FAILING }) : ''}
${checks.length === 0 ? html`<p class="empty">No statuses have been reported for the newest commits.${allows(repository.permission, 'write') ? html` <a href="/settings/tokens?repository=${owner}/${name}#new">Create a token</a> with which CI reports them.` : ''}</p>` : matrixView(view)}`
}

function matrixView(view: ChecksView): Html {
  const { repository, refs, ref, commits, shown, more } = view
  const head = ({ sha, subject, author, date }: Commit) =>
    html`<th scope="col"><a href="${commitPath(repository, sha)}" title="${visibleText(`${subject} · ${author} · ${date}`)}"><span class="commit-head"><code>${shortId(sha)}</code> ${shownText(truncate(subject, SUBJECT))}</span></a></th>`
  const row =
    ([context, cells]: [string, readonly (LinkedCell | undefined)[]]) =>
    () =>
      html`<tr><th scope="row">${shownText(context)}</th>${commits.map(({ sha }, index) => cellView(sha, cells[index]))}</tr>
`
  const hasFilter = view.checks.length >= FILTERED_FROM || isFiltered(view.filter)
  return html`${view.broken.length > 0 ? failingView(view) : ''}
${hasFilter ? filterForm(view.filter, view.checks, ref ? refName(refs, ref) : '') : ''}
<p class="hint" id="legend">The newest commit is on the left, and failing checks are first.${hasFilter ? ' The states of the filter are those on the newest commit.' : ''}${more > 0 ? ` ${shown.size} checks are shown; ${more.toLocaleString('en')} more are left out.` : ''}</p>
${
  shown.size === 0
    ? html`<p class="empty">No check matches the filter.</p>`
    : html`<div class="matrix" tabindex="0" role="group" aria-label="Checks by commit" aria-describedby="legend"><table>
<thead><tr><th scope="col">Check</th>${commits.map(head)}</tr></thead>
<tbody>
${[...shown].map(row)}</tbody></table></div>`
}`
}

/** Renders since when contexts are failing, and who broke them. */
function failingView({ repository, broken, moreBroken }: ChecksView): Html {
  const item = (check: Broken) => html`<li>${stateIcon(check.newest.state)}
<span class="name">${targetLink(check.newest.target_url, shownName(check.context))}</span>
${brokenWords(repository, check)}</li>`
  return html`<ul class="list rows" id="failing" aria-label="Failing checks">${broken.map(item)}</ul>
${moreBroken > 0 ? html`<p class="hint">and ${moreBroken} more in the first rows</p>` : ''}`
}

/** Renders a status as an icon. Screen readers read its state. */
function cellView(sha: string, cell: LinkedCell | undefined): Html {
  if (cell === undefined) return html`<td><span class="sr">no status</span></td>`
  const time = formatTime(cell.updated_at).replace('T', ' ').replace('Z', ' UTC')
  const content = html`<span title="${shortId(sha)}: ${cell.state}, ${time}"><span class="sr">${cell.state}</span></span>`
  const combined = COMBINED[cell.state]
  return html`<td class="${combined === cell.state ? combined : `${combined} ${cell.state}`}">${targetLink(cell.target_url, content)}</td>`
}
