import { schemas } from '../../../generated/schemas.ts'
import { type StatusState, statesOf } from '../../domain/states.ts'
import { firstOf, type Query } from '../routing/query.ts'
import { type Html, html } from '../text/html.ts'

/** What a check can be filtered by, in the order in which it matters to a user. */
const STATES = [
  ...statesOf('failure'),
  ...statesOf('pending'),
  'stalled',
  ...statesOf('success'),
  'not reported',
] as const
type FilterState = (typeof STATES)[number]

/** Checks from which on a page offers a filter. */
export const FILTERED_FROM = 10

/** Which checks a user wants to see. */
export interface StatusFilter {
  /** Text that the context or the description contains, in upper or lower case; empty for all. */
  q: string
  /** null for all. */
  state: FilterState | null
}

/** A check as a filter sees it. */
export interface FilteredCheck {
  context: string
  /** Missing if checks are only looked for by their names. */
  description?: string | null
  /** null if it has not been reported. */
  state: StatusState | null
  /** Whether it is pending for too long. */
  stalled: boolean
}

/** The query of a page with a filter. */
export type FilterQuery = Query<'q' | 'state'>

/** Code points of the text: a whole context can be pasted. */
const MAX_TEXT = schemas.Context.maxLength

/** Returns the filter that a query asks for. Ignores an unknown state. */
export function readFilter(query: FilterQuery): StatusFilter {
  const wantedState = firstOf(query.state)
  const state = STATES.find((state) => state === wantedState) ?? null
  return { q: Array.from(firstOf(query.q).trim()).slice(0, MAX_TEXT).join(''), state }
}

/** Returns whether the filter leaves anything out. */
export function isFiltered({ q, state }: StatusFilter): boolean {
  return q !== '' || state !== null
}

/** Returns whether a check is shown. */
export function matches(check: FilteredCheck, { q, state }: StatusFilter): boolean {
  if (state !== null && !isIn(check, state)) return false
  if (q === '') return true
  const wantedText = q.toLowerCase()
  return [check.context, check.description ?? ''].some((text) => text.toLowerCase().includes(wantedText))
}

function isIn(check: FilteredCheck, state: FilterState): boolean {
  return state === 'stalled' ? check.stalled : (check.state ?? 'not reported') === state
}

/** Renders the filter with the number of checks in each state. @param ref that the page shows */
export function filterForm({ q, state }: StatusFilter, checks: readonly FilteredCheck[], ref = ''): Html {
  const option = (name: FilterState) =>
    html`<option value="${name}"${name === state ? html` selected` : ''}>${name} (${checks.filter((check) => isIn(check, name)).length})</option>`
  const text = checks.some(({ description }) => description !== undefined) ? 'Context or description' : 'Name'
  const clear = ref && `ref=${encodeURIComponent(ref)}`
  return html`<form class="filter" role="search" aria-label="Checks">
  ${ref && html`<input type="hidden" name="ref" value="${ref}">`}
  <label class="sr" for="q">${text} contains</label>
  <input id="q" name="q" type="search" value="${q}" placeholder="Name" maxlength="${2 * MAX_TEXT}" autocomplete="off">
  <label class="sr" for="state">State</label>
  <select id="state" name="state"><option value="">all states (${checks.length})</option>${STATES.map(option)}</select>
  <button class="quiet" type="submit">Filter</button>
  ${isFiltered({ q, state }) ? html`<a href="?${clear}">Clear</a>` : ''}
</form>`
}
