import type { StatusState } from '../store/tables.ts'

export type CombinedState = 'pending' | 'success' | 'failure'

/** The state of a commit that follows from all of its statuses (contract, part 2); null when there are none. */
export function combinedState(states: readonly StatusState[]): CombinedState | null {
  if (states.length === 0) return null
  if (states.some((state) => state === 'failure' || state === 'error')) return 'failure'
  return states.includes('pending') ? 'pending' : 'success'
}
