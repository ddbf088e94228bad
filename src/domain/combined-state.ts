import type { components } from '../../generated/schema.ts'
import { schemas } from '../../generated/schemas.ts'

type State = components['schemas']['State']
export type CombinedState = NonNullable<components['schemas']['CommitStatuses']['state']>

/** The combined state that a status of each state asks for. */
const ASKS_FOR: Readonly<Record<State, CombinedState>> = {
  success: 'success',
  pending: 'pending',
  failure: 'failure',
  error: 'failure',
}
/** The highest rank among the statuses decides. */
const RANK: Readonly<Record<CombinedState, number>> = { success: 0, pending: 1, failure: 2 }

/** Returns the state of a commit with statuses of these states (contract, part 2); null when there are none. */
export function combinedState(states: readonly State[]): CombinedState | null {
  let combined: CombinedState | null = null
  for (const state of states) {
    const next = ASKS_FOR[state]
    if (combined === null || RANK[next] > RANK[combined]) combined = next
  }
  return combined
}

/** Returns the states that at least one status has. */
export function presentStates(counts: Readonly<Record<State, number>>): State[] {
  return schemas.State.enum.filter((state) => counts[state] > 0)
}
