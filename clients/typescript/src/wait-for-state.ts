import { type Decision, decideWait } from './decide-wait.ts'
import type { ListStatusesInput, ListStatusesResult, Operations } from './generated/operations.ts'
import type { components } from './generated/schema.ts'
import { poll, type ReadOptions, type Unanswered } from './poll.ts'

type CommitStatuses = components['schemas']['CommitStatuses']
type ListStatuses = Operations<ReadOptions>['listStatuses']

/** What to wait for. Times are in milliseconds. */
export interface WaitOptions {
  /**
   * Context patterns, each of which must match at least one reported context. `*` stands for any
   * characters.
   */
  require?: readonly string[] | undefined
  /**
   * Ignore contexts that no pattern of `require` matches; by default they count, as in the combined
   * state.
   */
  only?: boolean | undefined
  /**
   * How long nothing new may have been reported before success counts, 10,000 by default. Applies
   * to contexts that are not required by their exact name, since more of them may be about to
   * appear.
   */
  settle?: number | undefined
  /** Age of a pending report that ends the wait as `stalled`; by default none does. */
  stalled?: number | undefined
  /** Longest time to wait; 600,000 by default. */
  timeout?: number | undefined
  /**
   * Longest pause between two reads, 1,000 by default; 3 times that after half a minute, 5 times
   * after five minutes.
   */
  interval?: number | undefined
  /** How long a commit that is not found is asked for again, within `timeout`; 0 by default. */
  waitForCommit?: number | undefined
  /** Ends the wait, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** Called after the first read and after each change. */
  onChange?: ((progress: WaitProgress) => void) | undefined
  /**
   * Called with the problem when the service has not answered all attempts of one read, and with
   * null once it answers again. The wait goes on.
   */
  onOutage?: ((problem: string | null) => void) | undefined
}

export interface WaitProgress extends CommitStatuses {
  /** Patterns of `require` that match no reported context. */
  missing: string[]
  /** The service's time when it answered. */
  time: Date
}

/** How a wait ended. */
export type WaitResult =
  /**
   * - `success`: every pattern matches a context, and every context that counts is `success`.
   * - `failure`: a context that counts is `failure` or `error`, whatever else is missing.
   * - `stalled`: a pending report is older than `stalled`.
   * - `missing`: at the timeout a pattern matched no context.
   * - `pending`: at the timeout a context was pending, or nothing was reported.
   */
  | (WaitProgress & {
      outcome: 'success' | 'failure' | 'stalled' | 'missing' | 'pending'
      /** The statuses that decided: the failed, the stalled or the pending ones. */
      decisive: components['schemas']['Status'][]
    })
  | Unanswered

/**
 * Waits until the statuses of a commit decide; see `WaitResult`.
 *
 * @throws TypeError when `only` is set without `require`; the signal's reason
 */
export type WaitForState = (input: ListStatusesInput, options?: WaitOptions) => Promise<WaitResult>

/** In milliseconds, also for the command line. */
export const waitDefaults = { settle: 10_000, timeout: 600_000, interval: 1_000 }

/**
 * Creates `waitForState`, which polls and decides over what it read.
 *
 * @param readTimeout longest time of all attempts of one read, in milliseconds
 */
export function createWaitForState(listStatuses: ListStatuses, readTimeout?: number): WaitForState {
  return async (input, options = {}) => {
    const { timeout = waitDefaults.timeout, interval = waitDefaults.interval } = options
    const { signal, onChange, onOutage } = options
    const { require = [], only = false, settle = waitDefaults.settle, stalled, waitForCommit } = options
    if (only && require.length === 0) throw new TypeError('"only" needs at least one pattern in "require"')
    return poll(
      (call) => listStatuses(input, call).then(withStatuses),
      { timeout, interval, waitForCommit, readTimeout, signal, onOutage },
      ({ body, isNew, time, timedOut }) => {
        const rules = { require, only, settle, stalled }
        const decision = decideWait(body.statuses, rules, time.getTime(), timedOut)
        const progress = { ...body, missing: decision.missing, time }
        if (isNew) onChange?.(progress)
        if (!isFinal(decision)) return decision
        return { end: { ...progress, outcome: decision.outcome, decisive: decision.decisive } }
      },
    )
  }
}

function isFinal<D extends Decision>(
  decision: D,
): decision is D & { outcome: Exclude<Decision['outcome'], 'waiting'> } {
  return decision.outcome !== 'waiting'
}

/** The type is the service's promise. Something else, such as a proxy, may have answered. */
function withStatuses(answer: ListStatusesResult): ListStatusesResult {
  if (answer.status !== 200 || Array.isArray(answer.body.statuses)) return answer
  const error = 'answered 200 without a list of statuses: is the base URL right?'
  return { status: 0, body: { error, reason: 'unexpected' }, headers: answer.headers }
}
