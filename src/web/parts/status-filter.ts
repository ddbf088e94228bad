import { schemas } from '../../../generated/schemas.ts'
import type { StatusRow } from '../../store/statuses.ts'
import type { StatusState } from '../../store/tables.ts'
import { firstOf, type Query } from './query.ts'

/** Which statuses of a commit a visitor wants to see. */
export interface StatusFilter {
  /** Text that the context or the description contains, in upper or lower case; empty for all. */
  q: string
  /** null for all. */
  state: StatusState | null
}

/** The query of a page with a filter. */
export type FilterQuery = Query<'q' | 'state'>

/** Code points of the text: a whole context can be pasted. */
export const MAX_TEXT = schemas.Context.maxLength

/** Returns the filter that a query asks for. Ignores an unknown state. */
export function readFilter(query: FilterQuery): StatusFilter {
  const wanted = firstOf(query.state)
  const state = schemas.State.enum.find((state) => state === wanted) ?? null
  return { q: Array.from(firstOf(query.q).trim()).slice(0, MAX_TEXT).join(''), state }
}

/** Returns whether the filter leaves anything out. */
export function isFiltered({ q, state }: StatusFilter): boolean {
  return q !== '' || state !== null
}

/**
 * Returns the query string of a filter, with its question mark; empty if there is nothing in it.
 *
 * @param branches for which verdicts are shown
 */
export function filterQuery({ q, state }: StatusFilter, branches: readonly string[]): string {
  const query = new URLSearchParams({ ...(q !== '' && { q }), ...(state && { state }) })
  for (const branch of branches) query.append('branch', branch)
  return query.size > 0 ? `?${query}` : ''
}

/** Returns whether a status is shown. `state` is null for a context that has not reported. */
export function matches(
  { context, description, state }: Pick<StatusRow, 'context' | 'description'> & { state: StatusState | null },
  { q, state: wantedState }: StatusFilter,
): boolean {
  if (wantedState !== null && state !== wantedState) return false
  if (q === '') return true
  const wanted = q.toLowerCase()
  return context.toLowerCase().includes(wanted) || (description ?? '').toLowerCase().includes(wanted)
}
