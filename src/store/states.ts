import type { components } from '../../generated/schema.ts'
import { schemas } from '../../generated/schemas.ts'
import type { StatusState } from './tables.ts'

export type CombinedState = NonNullable<components['schemas']['CommitStatuses']['state']>

/** The combined state of a commit with one status of each state. Adding a state to the contract requires its entry here. */
export const COMBINED: Readonly<Record<StatusState, CombinedState>> = {
  success: 'success',
  pending: 'pending',
  failure: 'failure',
  error: 'failure',
}

/** Returns the states that count as a combined state, in the contract's order. */
export function statesOf(combined: CombinedState): StatusState[] {
  return schemas.State.enum.filter((state) => COMBINED[state] === combined)
}
