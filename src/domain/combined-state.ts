import type { components } from '../../generated/schema.ts'
import { schemas } from '../../generated/schemas.ts'

type State = components['schemas']['State']
export type CombinedState = NonNullable<components['schemas']['CommitStatuses']['state']>

/** The combined state of a commit with one status of each state. Adding a state to the contract requires its entry here. */
const COMBINED: Readonly<Record<State, CombinedState>> = {
  success: 'success',
  pending: 'pending',
  failure: 'failure',
  error: 'failure',
}
/** The combined state of several statuses is the one of the highest rank. */
const RANK: Readonly<Record<CombinedState, number>> = { success: 0, pending: 1, failure: 2 }

/** Returns the combined state of statuses with these states, or null if there are none. */
export function combinedState(states: readonly State[]): CombinedState | null {
  let combined: CombinedState | null = null
  for (const state of states) {
    const next = COMBINED[state]
    if (combined === null || RANK[next] > RANK[combined]) combined = next
  }
  return combined
}

/** Returns the states that at least one status has. */
export function presentStates(counts: Readonly<Record<State, number>>): State[] {
  return schemas.State.enum.filter((state) => counts[state] > 0)
}
