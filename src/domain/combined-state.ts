import { schemas } from '../../generated/schemas.ts'
import { COMBINED, type CombinedState } from '../store/states.ts'
import type { StatusCounts } from '../store/status-summaries.ts'
import type { StatusState } from '../store/tables.ts'

/** The combined state of several statuses is the one of the highest rank. */
const RANK: Readonly<Record<CombinedState, number>> = { success: 0, pending: 1, failure: 2 }

/** Returns the combined state of statuses with these states, or null if there are none. */
export function combinedState(states: readonly StatusState[]): CombinedState | null {
  let combined: CombinedState | null = null
  for (const state of states) {
    const next = COMBINED[state]
    if (combined === null || RANK[next] > RANK[combined]) combined = next
  }
  return combined
}

/** Returns how many statuses count as each combined state, and how many there are. */
export function combinedCounts(
  counts: Readonly<StatusCounts>,
): Record<CombinedState, number> & { total: number } {
  const combined = { success: 0, pending: 0, failure: 0, total: 0 }
  for (const state of schemas.State.enum) {
    combined[COMBINED[state]] += counts[state]
    combined.total += counts[state]
  }
  return combined
}
