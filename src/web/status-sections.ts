import { html } from 'hono/html'
import { isHttpUrl } from '../domain/http-url.ts'
import type { StatusCounts } from '../store/status-summaries.ts'
import type { ReportedStatus } from '../store/statuses.ts'
import type { Permission, StatusState } from '../store/tables.ts'
import { formatTime } from '../store/time.ts'
import type { Html } from './layout.ts'
import { reporter } from './reporter.ts'
import { stateBadge } from './state-badge.ts'
import { isFiltered, matchesText, type StatusFilter } from './status-filter.ts'
import { age, cutText, shownText, spent } from './text.ts'

/** What is shown of the statuses of a commit. */
export interface StatusList {
  counts: StatusCounts
  filter: StatusFilter
  /** Of the visitor. */
  permission: Permission | null
  /** Seconds since the epoch. A pending status last reported before is stalled. */
  stalledBefore: number
  /** Whether ages are shown; otherwise the script of the page computes them. */
  withAges: boolean
  /** Yields the statuses with one of the states in parts, ordered by context. */
  read(states: Section['states']): AsyncIterable<ReportedStatus[]>
}

interface Section {
  id: string
  title: string
  states: readonly [StatusState, StatusState?]
}

/** In the order in which they matter to a visitor. */
const SECTIONS: readonly Section[] = [
  { id: 'failed', title: 'Failed', states: ['failure', 'error'] },
  { id: 'pending', title: 'Pending', states: ['pending'] },
  { id: 'passed', title: 'Passed', states: ['success'] },
]
/** More passed checks than this are folded. */
const FOLDED_ABOVE = 20
/** Characters of a description that are shown at first. */
const DESCRIPTION = 200

/** Renders the statuses of a commit in chunks, since there may be thousands: failed ones first, then pending, then passed. */
export async function* statusSections(list: StatusList): AsyncGenerator<Html> {
  let shown = false
  for (const section of SECTIONS) {
    const states = wantedStates(section, list.filter)
    if (!states || states.every((state) => list.counts[state ?? 'error'] === 0)) continue
    for await (const chunk of sectionView({ ...section, states }, list)) {
      shown = true
      yield chunk
    }
  }
  if (!shown && isFiltered(list.filter)) yield html`<p class="empty">No check matches the filter.</p>`
}

/** Returns the states of a section that the filter does not exclude. */
function wantedStates({ states }: Section, { state }: StatusFilter): Section['states'] | undefined {
  if (state === null) return states
  return states.includes(state) ? [state] : undefined
}

async function* sectionView(section: Section, list: StatusList): AsyncGenerator<Html> {
  let opened = false
  for await (const part of list.read(section.states)) {
    const rows = part.filter((status) => matchesText(status, list.filter))
    if (rows.length === 0) continue
    if (!opened) yield sectionStart(section, list)
    opened = true
    yield html`${rows.map((status) => statusRow(status, list))}`
  }
  if (!opened) return
  yield html`</tbody></table></div>${section.id === 'passed' ? html`</details>` : html`</section>`}`
}

/** Renders the beginning of a section, up to its first row. A text filter makes the number of rows unknown. */
function sectionStart({ id, title, states }: Section, { counts, filter }: StatusList): Html {
  const count = states.reduce((sum, state) => sum + (state ? counts[state] : 0), 0)
  const heading = html`<h2 id="${id}-heading">${title} ${filter.q === '' ? html`<span class="count">${count}</span>` : ''}</h2>`
  const open = count <= FOLDED_ABOVE || isFiltered(filter)
  return html`${
    id === 'passed'
      ? html`<details class="section" id="${id}" ${open ? 'open' : ''}><summary>${heading}</summary>`
      : html`<section class="section" id="${id}" aria-labelledby="${id}-heading">${heading}`
  }<div class="scroll" tabindex="0" role="group" aria-labelledby="${id}-heading"><table class="statuses">
  <thead><tr><th scope="col">State</th><th scope="col">Context</th><th scope="col">Description</th>
    <th scope="col">Took</th><th scope="col">Reported</th></tr></thead>
  <tbody>`
}

function statusRow(status: ReportedStatus, { permission, stalledBefore, withAges }: StatusList): Html {
  const { id, state, context, description, created_at, updated_at } = status
  const stalled = state === 'pending' && updated_at < stalledBefore
  const took = state === 'pending' ? '' : spent(updated_at - created_at)
  const now = withAges ? Date.now() : null
  return html`<tr id="s-${id}">
  <td>${stateBadge(state)}${stalled ? html` <span class="badge stalled">stalled</span>` : ''}</td>
  <th scope="row">${targetLink(status.target_url, shownText(context))}</th>
  <td>${description === null ? '' : cutText(description, DESCRIPTION)}</td>
  <td data-column="Took">${took}</td>
  <td data-column="Reported">${age(formatTime(updated_at), now)} ${reporter(status, permission)}</td>
</tr>
`
}

/** Renders a link. Checks the URL again, so that only http(s) URLs become links whatever the database holds. */
export function targetLink(target: string | null, content: Html): Html {
  const href = target !== null && isHttpUrl(target) ? URL.parse(target)?.href : undefined
  return href ? html`<a href="${href}" rel="noopener noreferrer nofollow">${content}</a>` : content
}
