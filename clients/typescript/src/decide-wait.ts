import { countsAs } from './generated/operations.ts'
import type { components } from './generated/schema.ts'
import { matchesPattern } from './pattern.ts'

type AnyStatus = components['schemas']['Status']
/** What a decision reads of a status. */
export type Decidable = Pick<AnyStatus, 'context' | 'state' | 'updated_at'>

/** One that a later version of the contract adds is missing, and counts as `pending`. */
const COMBINED = countsAs.State

/** What a wait is waiting for. Times are in milliseconds. */
export interface WaitRules {
  /** Context patterns, each of which must match at least one reported context. */
  require: readonly string[]
  /** Ignore contexts that no pattern matches. */
  only: boolean
  /**
   * How long nothing new may have been reported before success counts, where more contexts may
   * still appear.
   */
  settle: number
  /** Age of a pending report that ends the wait; undefined: none does. */
  stalled: number | undefined
}

/** How a wait stands. */
export interface Decision<Status extends Decidable = AnyStatus> {
  /** `waiting`: a later report, or time, can still change the outcome. */
  outcome: 'success' | 'failure' | 'stalled' | 'missing' | 'pending' | 'waiting'
  /** Patterns that match no reported context. */
  missing: string[]
  /** The statuses that decided: the failed, the stalled or the pending ones. */
  decisive: Status[]
  /** Milliseconds until time alone can change the outcome; Infinity when it cannot. */
  changesIn: number
}

/**
 * Decides a wait. The first rule that holds wins:
 *
 * 1. A counted context is `failure` or `error`: `failure`. No later report can turn the result.
 * 2. Every pattern matches, every counted context is `success`, and the statuses have settled:
 *    `success`.
 * 3. A counted context has been pending for longer than `stalled`: `stalled`.
 * 4. At the timeout: `missing` when a pattern matches nothing, otherwise `pending`.
 *
 * A context counts unless `only` is set and no pattern matches it. Statuses have settled when the
 * newest report of a context not required by its exact name is older than `settle`: more of them
 * may be about to appear. The timeout ends that too.
 *
 * @param now the service's time, in milliseconds since the epoch
 */
export function decideWait<Status extends Decidable>(
  statuses: readonly Status[],
  { require, only, settle, stalled = Number.POSITIVE_INFINITY }: WaitRules,
  now: number,
  timedOut: boolean,
): Decision<Status> {
  const matched = new Map(require.map((pattern) => [pattern, false]))
  const counted = statuses.filter(({ context }) => {
    const matches = require.filter((pattern) => matchesPattern(pattern, context))
    for (const pattern of matches) matched.set(pattern, true)
    return !only || matches.length > 0
  })
  const missing = require.filter((pattern) => !matched.get(pattern))
  const age = ({ updated_at }: Status) => now - Date.parse(updated_at)
  const decide = (
    outcome: Decision['outcome'],
    decisive: Status[],
    changesIn = Number.POSITIVE_INFINITY,
  ) => ({
    outcome,
    missing,
    decisive,
    changesIn,
  })

  const failed = counted.filter(({ state }) => COMBINED[state] === 'failure')
  if (failed.length > 0) return decide('failure', failed)

  const pending = counted.filter(({ state }) => COMBINED[state] !== 'success')
  if (counted.length > 0 && pending.length === 0 && missing.length === 0) {
    const unasked = counted.filter(({ context }) => !require.includes(context))
    const unsettled = Math.max(0, ...unasked.map((status) => settle - age(status)))
    return unsettled === 0 || timedOut ? decide('success', []) : decide('waiting', [], unsettled)
  }

  const overdue = pending.filter((status) => age(status) > stalled)
  if (overdue.length > 0) return decide('stalled', overdue)
  if (timedOut) return decide(missing.length > 0 ? 'missing' : 'pending', pending)
  // One millisecond more, since exactly `stalled` is not yet longer than that.
  return decide('waiting', pending, Math.min(...pending.map((status) => stalled - age(status) + 1)))
}
