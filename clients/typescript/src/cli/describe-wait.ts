import { countsAs } from '../generated/operations.ts'
import type { Status, WaitProgress, WaitResult } from '../index.ts'
import { formatDuration } from './duration.ts'
import { plain } from './terminal.ts'

/** Describes how a wait ended: `1 failure, 3 success; failed: ci/mac`. */
export function describeResult(result: Exclude<WaitResult, { outcome: 'unanswered' }>): string {
  const { outcome, statuses, missing, decisive, time } = result
  const parts = [countStates(statuses)]
  if (outcome === 'failure') parts.push(`failed: ${names(decisive)}`)
  if (outcome === 'stalled' || outcome === 'pending') {
    if (decisive.length > 0) parts.push(`${outcome}: ${names(decisive, time)}`)
  }
  if (missing.length > 0) parts.push(`not reported: ${missing.join(', ')}`)
  return plain(parts.join('; '))
}

/**
 * Describes what a wait is waiting for: `2 pending, 5 success; waiting for ci/mac (3 min 2 s); not
 * reported: ci/e2e`.
 */
export function describeProgress({ statuses, missing }: WaitProgress, time: Date): string {
  // A state that a later version of the contract adds is missing, and counts as pending.
  const pending = statuses.filter(({ state }) => !['success', 'failure'].includes(countsAs.State[state]))
  const parts = [countStates(statuses)]
  if (pending.length > 0) parts.push(`waiting for ${names(pending, time)}`)
  if (missing.length > 0) parts.push(`not reported: ${missing.join(', ')}`)
  return plain(parts.join('; '))
}

/** Formats the counts by state: `2 pending, 5 success`. */
function countStates(statuses: readonly Status[]): string {
  // What decides first, then whatever other states there are.
  const states = new Set<Status['state']>([
    'failure',
    'error',
    'pending',
    ...statuses.map(({ state }) => state),
  ])
  const counted = [...states]
    .map((state) => ({ state, count: statuses.filter((status) => status.state === state).length }))
    .filter(({ count }) => count > 0)
  return counted.map(({ state, count }) => `${count} ${state}`).join(', ') || 'nothing has reported'
}

/** Formats contexts, with the age of their reports if a time is given: `ci/mac (2 h 5 min)`. */
function names(statuses: readonly Status[], time?: Date): string {
  return statuses
    .map(({ context, updated_at }) => {
      const age = time && Math.max(0, time.getTime() - Date.parse(updated_at))
      return age === undefined ? context : `${context} (${formatDuration(age)})`
    })
    .join(', ')
}
