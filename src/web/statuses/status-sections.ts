import { COMBINED, type CombinedState, type StatusCounts } from '../../domain/states.ts'
import type { ReportedStatus } from '../../store/statuses/statuses.ts'
import { type Html, html } from '../text/html.ts'
import { missingRow, statusRow } from './check-row.ts'
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
  /** Who has reported all statuses; null if nobody has. */
  reporter: Html | null
  /** Renders who has reported a status; null if that is not known. */
  reporterOf(status: ReportedStatus): Html | null
  /** Whether the user may ask for another run of a check that a run has claimed. */
  canRunAgain: boolean
  /** Seconds since the epoch. A pending status last reported before is stalled. */
  stalledBefore: number
  /** All statuses of the commit, ordered by context. */
  statuses: readonly ReportedStatus[]
}

/** More passed checks than this are folded, even if they are all there is. */
const FOLDED_ABOVE = 20
/** More passed checks than this are not part of the page before the user asks for them. */
const LINKED_ABOVE = 100

type Rows = readonly (() => Html)[]

/** Renders the statuses of a commit: failed, required but not reported, pending, passed. */
export function statusSections(list: StatusList): Html {
  const { filter, required, since, stalledBefore } = list
  const matching = list.statuses.filter((status) => matches(checkOf(status, list), filter))
  const missing = [...required.missing].filter((pattern) => matches(unreported(pattern), filter))
  if (matching.length === 0 && missing.length === 0)
    return isFiltered(filter) ? html`<p class="empty">No check matches the filter.</p>` : html``

  const isUnmet = ({ context, state }: ReportedStatus) =>
    required.reported.has(context) && COMBINED[state] !== 'success'
  const rows = (combined: CombinedState) =>
    matching
      .filter(({ state }) => COMBINED[state] === combined)
      .toSorted((one, other) => Number(isUnmet(other)) - Number(isUnmet(one)))
      .map((status) => () => {
        return statusRow(status, {
          since: since.get(status.context) ?? [],
          isUnmet: isUnmet(status),
          isStalled: isStalled(status, stalledBefore),
          reporter: list.reporter ? null : list.reporterOf(status),
          canRunAgain: list.canRunAgain && isRunAgainUseful(status),
        })
      })
  const passed = rows('success')
  const others = [
    checks('Failed', 'failed', rows('failure')),
    checks(
      'Not reported',
      'missing',
      missing.map((pattern) => () => missingRow(pattern)),
    ),
    checks('Pending', 'pending', rows('pending')),
  ]
  const isAll = passed.length === matching.length && missing.length === 0
  const isOpen = isFiltered(filter) || (isAll && passed.length <= FOLDED_ABOVE)
  return html`${isAll ? '' : html`<div class="list rows">${others}</div>`}
${passedSection(passed, isOpen)}`
}

/** Renders the passed checks; a link to them if there are many that would be folded. */
function passedSection(rows: Rows, isOpen: boolean): Html | string {
  if (rows.length === 0) return ''
  const title = html`Passed <span class="count">${rows.length}</span>`
  if (!isOpen && rows.length > LINKED_ABOVE)
    return html`<div class="section"><h2><a href="?state=success">${title}</a></h2></div>`
  return html`<details class="section" id="passed" ${isOpen ? 'open' : ''}><summary><h2>${title}</h2></summary><div class="list rows">${checks('Passed', 'passed-checks', rows)}</div></details>`
}

/** Returns whether a run has claimed a check, and no other one was asked for since. */
function isRunAgainUseful({ state, run, claim_run }: ReportedStatus): boolean {
  return claim_run !== null && (run !== null || COMBINED[state] !== 'pending')
}

/** Renders checks with the same state. The columns are those of all lists beside it. */
function checks(title: string, id: string, rows: Rows): Html | string {
  return rows.length > 0 ? html`<ul id="${id}" aria-label="${title}">${rows}</ul>` : ''
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

/** Returns after how many seconds the next of pending statuses is stalled; Infinity for none. */
export function stallsIn(statuses: Parameters<typeof isStalled>[0][], before: number): number {
  const pending = statuses.filter(
    (status) => COMBINED[status.state] === 'pending' && !isStalled(status, before),
  )
  return Math.min(...pending.map(({ updated_at: reportedAt }) => reportedAt - before))
}

/** Returns whether a status is pending since before a time, in seconds since the epoch. */
export function isStalled(
  { state, updated_at }: Pick<ReportedStatus, 'state' | 'updated_at'>,
  before: number,
): boolean {
  return COMBINED[state] === 'pending' && updated_at < before
}
