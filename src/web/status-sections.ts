import { html } from 'hono/html'
import { isHttpUrl } from '../domain/http-url.ts'
import type { RequiredContexts } from '../domain/required-contexts.ts'
import { COMBINED, statesOf } from '../store/states.ts'
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
  required: RequiredContexts
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
  states: readonly StatusState[]
}

/** In the order in which they matter to a visitor. */
export const SECTIONS: readonly Section[] = [
  { id: 'failed', title: 'Failed', states: statesOf('failure') },
  { id: 'pending', title: 'Pending', states: statesOf('pending') },
  { id: 'passed', title: 'Passed', states: statesOf('success') },
]
/** More passed checks than this are folded. */
const FOLDED_ABOVE = 20
/** Characters of a description that are shown at first. */
const DESCRIPTION = 200
/** Required patterns without a report that are listed. */
const MISSING = 100

/**
 * Renders the statuses of a commit in chunks, since there may be thousands: failed ones first, then pending ones, then
 * required ones that have not reported, then passed.
 */
export async function* statusSections(list: StatusList): AsyncGenerator<Html> {
  let shown = false
  for (const section of SECTIONS) {
    if (section.id === 'passed') {
      const missing = wantedPatterns(list)
      if (missing.length > 0) yield missingView(missing)
      shown ||= missing.length > 0
    }
    const states = wantedStates(section, list.filter)
    if (states.every((state) => list.counts[state] === 0)) continue
    for await (const chunk of sectionView({ ...section, states }, list)) {
      shown = true
      yield chunk
    }
  }
  if (!shown && isFiltered(list.filter)) yield html`<p class="empty">No check matches the filter.</p>`
}

/** Returns the states of a section that the filter does not exclude. */
function wantedStates({ states }: Section, filter: StatusFilter): Section['states'] {
  return states.filter((state) => filter.state === null || state === filter.state)
}

/** Returns the required patterns without a report that the filter does not exclude, with the branches. */
function wantedPatterns({ required, filter }: StatusList): [pattern: string, branchPatterns: string[]][] {
  if (filter.state !== null) return []
  return [...required.missing].filter(([pattern]) =>
    matchesText({ context: pattern, description: null }, filter),
  )
}

async function* sectionView(section: Section, list: StatusList): AsyncGenerator<Html> {
  let opened = false
  for await (const part of list.read(section.states)) {
    const rows = part.filter((status) => matchesText(status, list.filter))
    if (rows.length === 0) continue
    if (!opened) yield sectionStart(section, list)
    opened = true
    // One by one: a row can have 9 KB, and every page in preparation holds what it yields.
    for (const status of rows) yield statusRow(status, list)
  }
  if (!opened) return
  yield html`</tbody></table></div>${section.id === 'passed' ? html`</details>` : html`</section>`}`
}

/** Renders the beginning of a section, up to its first row. A text filter makes the number of rows unknown. */
function sectionStart({ id, title, states }: Section, { counts, filter }: StatusList): Html {
  const count = states.reduce((sum, state) => sum + counts[state], 0)
  const heading = html`<h2 id="${id}-heading">${title} ${filter.q === '' ? html`<span class="count">${count}</span>` : ''}</h2>`
  const open = count <= FOLDED_ABOVE || isFiltered(filter)
  return html`${
    id === 'passed'
      ? html`<details class="section" id="${id}" ${open ? 'open' : ''}><summary>${heading}</summary>`
      : html`<section class="section" id="${id}" aria-labelledby="${id}-heading">${heading}`
  }${tableStart(id)}`
}

function tableStart(id: string): Html {
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="${id}-heading"><table class="statuses">
  <thead><tr><th scope="col">State</th><th scope="col">Context</th><th scope="col">Description</th>
    <th scope="col">Took</th><th scope="col">Reported</th></tr></thead>
  <tbody>`
}

/** Renders required patterns that no context matches. */
function missingView(missing: [pattern: string, branchPatterns: string[]][]): Html {
  const more = missing.length - MISSING
  return html`<section class="section" id="missing" aria-labelledby="missing-heading">
<h2 id="missing-heading">Not reported <span class="count">${missing.length}</span></h2>${tableStart('missing')}${missing
    .slice(0, MISSING)
    .map(
      ([pattern, branchPatterns]) => html`<tr>
  <td><span class="badge missing">not reported</span></td>
  <th scope="row">${shownText(pattern)}</th>
  <td>Required for ${branchNames(branchPatterns)}</td>
  <td data-column="Took"></td>
  <td data-column="Reported"></td>
</tr>
`,
    )}</tbody></table></div>${more > 0 ? html`<p class="faint">${more} more are not listed.</p>` : ''}</section>`
}

/** Renders branch patterns: at most three, then "and 4 more". */
function branchNames(branchPatterns: readonly string[]): Html {
  const shown = branchPatterns
    .slice(0, 3)
    .map((name, index) => html`${index > 0 ? ', ' : ''}${shownText(name)}`)
  const more = branchPatterns.length - shown.length
  return html`${shown}${more > 0 ? ` and ${more} more` : ''}`
}

/** Renders that branch rules require a context. */
function requiredMark(branchPatterns: readonly string[] | undefined): Html | string {
  if (branchPatterns === undefined) return ''
  return html` <span class="badge required">required for ${branchNames(branchPatterns)}</span>`
}

function statusRow(
  status: ReportedStatus,
  { permission, required, stalledBefore, withAges }: StatusList,
): Html {
  const { id, state, context, description, created_at, updated_at } = status
  const took = COMBINED[state] === 'pending' ? '' : spent(updated_at - created_at)
  const now = withAges ? Date.now() : null
  return html`<tr id="s-${id}">
  <td>${stateBadge(state)}${isStalled(status, stalledBefore) ? html` <span class="badge stalled">stalled</span>` : ''}</td>
  <th scope="row">${targetLink(status.target_url, shownText(context))}${requiredMark(required.reported.get(context))}</th>
  <td>${description === null ? '' : cutText(description, DESCRIPTION)}</td>
  <td data-column="Took">${took}</td>
  <td data-column="Reported">${age(formatTime(updated_at), now)} ${reporter(status, permission)}</td>
</tr>
`
}

/** Returns whether a status is pending and was last reported before a time, in seconds since the epoch. */
export function isStalled({ state, updated_at }: ReportedStatus, before: number): boolean {
  return COMBINED[state] === 'pending' && updated_at < before
}

/** Renders a link. Checks the URL again, so that only http(s) URLs become links whatever the database holds. */
export function targetLink(target: string | null, content: Html): Html {
  const href = target !== null && isHttpUrl(target) ? URL.parse(target)?.href : undefined
  return href ? html`<a href="${href}" rel="noopener noreferrer nofollow">${content}</a>` : content
}
