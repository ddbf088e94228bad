import type { components } from '../../generated/schema.ts'
import { schemas } from '../../generated/schemas.ts'

export type StatusState = components['schemas']['State']
export type CombinedState = NonNullable<components['schemas']['CommitStatuses']['state']>

/** The combined state of a commit with one status of each state. */
export const COMBINED: Readonly<Record<StatusState, CombinedState>> = schemas.State['x-counts-as']

/** Returns the states that count as a combined state, in the contract's order. */
export function statesOf(combined: CombinedState): StatusState[] {
  return schemas.State.enum.filter((state) => COMBINED[state] === combined)
}

/** How many statuses of a commit have which state. */
export type StatusCounts = Record<StatusState, number>

// The contract's states are the keys of the counts.
const NO_COUNTS = Object.fromEntries(schemas.State.enum.map((state) => [state, 0])) as StatusCounts

/** Counts statuses by their states. */
export function countStates(statuses: readonly { state: StatusState }[]): StatusCounts {
  const counts = { ...NO_COUNTS }
  for (const { state } of statuses) counts[state]++
  return counts
}

/** The combined state of several statuses is the one of the highest rank. */
const RANK: Readonly<Record<CombinedState, number>> = { success: 0, pending: 1, failure: 2 }

/** Returns the combined state of one status and others before it. @param before null: there were none */
export function addState(before: CombinedState | null, state: StatusState): CombinedState {
  const next = COMBINED[state]
  return before === null || RANK[next] > RANK[before] ? next : before
}

/** Returns the combined state of statuses with these states, or null if there are none. */
export function combinedState(states: readonly StatusState[]): CombinedState | null {
  let combined: CombinedState | null = null
  for (const state of states) combined = addState(combined, state)
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
