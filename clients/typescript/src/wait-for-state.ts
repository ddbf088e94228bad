import { type Decision, decideWait } from './decide-wait.ts'
import type { ListStatusesInput, ListStatusesResult, Operations } from './generated/operations.ts'
import type { components } from './generated/schema.ts'
import { sleep } from './sleep.ts'

type CommitStatuses = components['schemas']['CommitStatuses']
type ListStatuses = Operations<{
  signal?: AbortSignal | undefined
  totalTimeout?: number | undefined
  waitForCommit?: number | undefined
  ifNoneMatch?: string | undefined
}>['listStatuses']

/** What to wait for. Times are in milliseconds. */
export interface WaitOptions {
  /** Context patterns, each of which must match at least one reported context. `*` stands for any characters. */
  require?: readonly string[] | undefined
  /** Ignore contexts that no pattern of `require` matches; by default they count, as in the combined state. */
  only?: boolean | undefined
  /**
   * How long nothing new may have been reported before success counts, 10,000 by default. Applies to contexts that are
   * not required by their exact name, since more of them may be about to appear.
   */
  settle?: number | undefined
  /** Age of a pending report that ends the wait as `stalled`; by default none does. */
  stalled?: number | undefined
  /** Longest time to wait; 600,000 by default. */
  timeout?: number | undefined
  /** Longest pause between two reads, 1,000 by default; 3 times that after half a minute, 5 times after five minutes. */
  interval?: number | undefined
  /** How long a commit that is not found is asked for again, within `timeout`; 0 by default. */
  waitForCommit?: number | undefined
  /** Ends the wait, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** Called after the first read and after each change. */
  onChange?: ((progress: WaitProgress) => void) | undefined
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
  /** The service refused, or could not be reached by all attempts of one read. */
  | { outcome: 'unanswered'; answer: Failure }

type Failure = Exclude<ListStatusesResult, { status: 200 | 304 }>

/**
 * Waits until the statuses of a commit decide; see `WaitResult`.
 *
 * @throws TypeError when `only` is set without `require`; the signal's reason
 */
export type WaitForState = (input: ListStatusesInput, options?: WaitOptions) => Promise<WaitResult>

/** In milliseconds, also for the command line. */
export const waitDefaults = { settle: 10_000, timeout: 600_000, interval: 1_000 }

/** The read at the timeout may take this long. */
const LAST_READ_TIMEOUT = 5_000

/** Factors by which the pauses grow, each with the milliseconds of waiting after which it holds. */
const slowdowns = [
  { after: 300_000, factor: 5 },
  { after: 30_000, factor: 3 },
]

/** Returns by how much pauses are longer after so many milliseconds of waiting. */
export function slowdown(waited: number): number {
  return slowdowns.find(({ after }) => waited >= after)?.factor ?? 1
}

/**
 * Creates `waitForState`. It polls with the `ETag` of the last answer, and decides over what it read.
 *
 * @param readTimeout longest time of all attempts of one read, in milliseconds
 */
export function createWaitForState(listStatuses: ListStatuses, readTimeout = 30_000): WaitForState {
  return async (input, options = {}) => {
    const { timeout = waitDefaults.timeout, interval = waitDefaults.interval, signal, onChange } = options
    const { require = [], only = false, settle = waitDefaults.settle, stalled, waitForCommit = 0 } = options
    if (only && require.length === 0) throw new TypeError('"only" needs at least one pattern in "require"')
    const start = performance.now()
    const left = () => start + timeout - performance.now()
    let known: { etag: string | undefined; body: CommitStatuses } | undefined
    for (;;) {
      const answer = await listStatuses(input, {
        signal,
        totalTimeout: Math.min(readTimeout, Math.max(left(), LAST_READ_TIMEOUT)),
        waitForCommit: known ? 0 : Math.min(waitForCommit, left()),
        ifNoneMatch: known?.etag,
      })
      if (answer.status === 200) {
        // The type is the service's promise. Something else, such as a proxy, may have answered.
        if (!Array.isArray(answer.body.statuses)) {
          const error = 'answered 200 without a list of statuses: is the base URL right?'
          return { outcome: 'unanswered', answer: { status: 0, body: { error }, headers: answer.headers } }
        }
        known = { etag: answer.headers.get('etag') ?? undefined, body: answer.body }
      } else if (answer.status !== 304) return { outcome: 'unanswered', answer }
      if (known === undefined) throw new Error('the service answered 304 to a read without If-None-Match')
      const time = timeOf(answer.headers)
      const rules = { require, only, settle, stalled }
      const decision = decideWait(known.body.statuses, rules, time.getTime(), left() <= 0)
      const progress = { ...known.body, missing: decision.missing, time }
      if (answer.status === 200) onChange?.(progress)
      if (isFinal(decision)) return { ...progress, outcome: decision.outcome, decisive: decision.decisive }
      // Between three quarters of the pause and all of it, so that many waiting jobs spread.
      const pause = interval * slowdown(performance.now() - start) * (0.75 + Math.random() / 4)
      await sleep(Math.min(pause, Math.max(decision.changesIn, interval), left()), signal)
      signal?.throwIfAborted()
    }
  }
}

function isFinal<D extends Decision>(
  decision: D,
): decision is D & { outcome: Exclude<Decision['outcome'], 'waiting'> } {
  return decision.outcome !== 'waiting'
}

/** Returns the service's time, whose clock also wrote the timestamps. A gateway may drop `Date`. */
function timeOf(headers: Headers): Date {
  const time = new Date(headers.get('date') ?? '')
  return Number.isNaN(time.getTime()) ? new Date() : time
}
