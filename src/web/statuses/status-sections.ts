import { allows, type Permission } from '../../domain/permissions.ts'
import { COMBINED, type CombinedState, type StatusCounts } from '../../domain/states.ts'
import type { ReportedStatus } from '../../store/statuses/statuses.ts'
import { formatTime } from '../../store/time.ts'
import { type Html, html } from '../parts/html.ts'
import { cutText, formatAge, formatElapsed, shownText, targetLink } from '../parts/text.ts'
import { stateBadge } from './state-summary.ts'
import { type FilteredCheck, isFiltered, matches, type StatusFilter } from './status-filter.ts'
import type { BranchVerdict, requiredContexts } from './verdicts.ts'

/** What is shown of the statuses of a commit. */
export interface StatusList {
  verdicts: readonly BranchVerdict[]
  counts: StatusCounts
  filter: StatusFilter
  required: ReturnType<typeof requiredContexts>
  /** Since when contexts fail. */
  since: ReadonlyMap<string, readonly Html[]>
  /** Of the user. */
  permission: Permission | null
  /** Seconds since the epoch. A pending status last reported before is stalled. */
  stalledBefore: number
  /** All statuses of the commit, ordered by context. */
  statuses: readonly ReportedStatus[]
}

/** More passed checks than this are folded. */
const FOLDED_ABOVE = 20
/** Characters of a description that are shown at first. */
const DESCRIPTION = 200

/** Renders the statuses of a commit: failed, pending, required but not reported, passed. */
export function statusSections(list: StatusList): Html {
  const matching = list.statuses.filter((status) => matches(checkOf(status, list), list.filter))
  const missingPatterns = [...list.required.missing].filter((pattern) =>
    matches(unreported(pattern), list.filter),
  )
  if (matching.length === 0 && missingPatterns.length === 0)
    return isFiltered(list.filter) ? html`<p class="empty">No check matches the filter.</p>` : html``
  const section = (title: string, combined: CombinedState) => {
    const statuses = matching.filter(({ state }) => COMBINED[state] === combined)
    return statuses.length > 0 ? sectionView(title, combined, statuses, list) : ''
  }
  return html`${section('Failed', 'failure')}${section('Pending', 'pending')}${missingPatterns.length > 0 ? missingView(missingPatterns) : ''}${section('Passed', 'success')}`
}

/** Returns all checks of a commit, also required ones that have not reported. */
export function checksOf(list: StatusList): FilteredCheck[] {
  const reportedChecks = list.statuses.map((status) => checkOf(status, list))
  return [...reportedChecks, ...[...list.required.missing].map(unreported)]
}

function checkOf(status: ReportedStatus, { stalledBefore }: StatusList): FilteredCheck {
  return { ...status, stalled: isStalled(status, stalledBefore) }
}

function unreported(context: string): FilteredCheck {
  return { context, state: null, stalled: false }
}

function sectionView(
  title: string,
  combined: CombinedState,
  statuses: readonly ReportedStatus[],
  list: StatusList,
): Html {
  const id = title.toLowerCase()
  const heading = html`<h2 id="${id}-heading">${title} <span class="count">${statuses.length}</span></h2>`
  const table = html`${tableStart(id)}${statuses.map((status) => () => statusRow(status, list))}</tbody></table></div>`
  if (combined !== 'success')
    return html`<section class="section" id="${id}" aria-labelledby="${id}-heading">${heading}${table}</section>`
  const open = statuses.length <= FOLDED_ABOVE || isFiltered(list.filter)
  return html`<details class="section" id="${id}" ${open ? 'open' : ''}><summary>${heading}</summary>${table}</details>`
}

function tableStart(id: string): Html {
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="${id}-heading"><table class="statuses">
  <thead><tr><th scope="col">State</th><th scope="col">Context</th><th scope="col">Description</th>
    <th scope="col">Took</th><th scope="col">Reported</th></tr></thead>
  <tbody>`
}

/** Renders required patterns that no context matches. */
function missingView(missing: readonly string[]): Html {
  return html`<section class="section" id="missing" aria-labelledby="missing-heading">
<h2 id="missing-heading">Not reported <span class="count">${missing.length}</span></h2>${tableStart('missing')}${missing.map(
    (pattern) => html`<tr>
  <td><span class="badge missing">not reported</span></td>
  <th scope="row">${shownText(pattern)}</th>
  <td>Required</td>
  <td data-column="Took"></td>
  <td data-column="Reported"></td>
</tr>
`,
  )}</tbody></table></div></section>`
}

function statusRow(status: ReportedStatus, { permission, required, since, stalledBefore }: StatusList): Html {
  const { id, state, context, description, pending_at, updated_at } = status
  const isUnmet = required.reported.has(context) && COMBINED[state] !== 'success'
  const took =
    COMBINED[state] === 'pending' || pending_at === null ? '' : formatElapsed(updated_at - pending_at)
  return html`<tr id="s-${id}">
  <td>${stateBadge(state)}${isStalled(status, stalledBefore) ? html` <span class="badge stalled">stalled</span>` : ''}</td>
  <th scope="row">${targetLink(status.target_url, shownText(context))}${isUnmet ? html` <span class="badge required">required</span>` : ''}</th>
  <td>${description === null ? '' : cutText(description, DESCRIPTION)}${since.get(context) ?? ''}</td>
  <td data-column="Took">${took}</td>
  <td data-column="Reported">${formatAge(formatTime(updated_at))} ${reporter(status, permission)}</td>
</tr>
`
}

/** Renders who reported a status last, if known. Only those who may write see names of tokens. */
function reporter(
  { reporter_user: user, reporter_token: token }: ReportedStatus,
  permission: Permission | null,
): Html | '' {
  if (user === null) return ''
  return html`<span class="faint">by ${user}${allows(permission, 'write') && token ? html`, token ${shownText(token)}` : ''}</span>`
}

/** Returns whether a status is pending since before a time, in seconds since the epoch. */
export function isStalled(
  { state, updated_at }: Pick<ReportedStatus, 'state' | 'updated_at'>,
  before: number,
): boolean {
  return COMBINED[state] === 'pending' && updated_at < before
}
