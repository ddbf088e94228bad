import { retryAfter } from './backoff.ts'
import { type Decision, decideWait } from './decide-wait.ts'
import {
  type ListStatusesInput,
  type ListStatusesResult,
  type Operations,
  operations,
} from './generated/operations.ts'
import type { components } from './generated/schema.ts'
import { sleep } from './sleep.ts'

type CommitStatuses = components['schemas']['CommitStatuses']
type Calls = Pick<
  Operations<{
    signal?: AbortSignal | undefined
    timeout?: number | undefined
    totalTimeout?: number | undefined
    ifNoneMatch?: string | undefined
  }>,
  'listStatuses' | 'getVerdict'
>

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
  /**
   * Shortest time between two reads, 1,000 by default. Without support for held requests it grows to 10 times that while
   * nothing changes.
   */
  interval?: number | undefined
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

/** Factor by which pauses grow at most, with a service that cannot tell when something changes. */
export const MAX_SLOWDOWN = 10
/** In milliseconds, also for the command line. */
export const waitDefaults = { settle: 10_000, timeout: 600_000, interval: 1_000 }

const READ_TIMEOUT = 30_000
/** The read at the timeout may take this long. */
const LAST_READ_TIMEOUT = 5_000

/** How long the service may hold an answer, in seconds, and how long the answer may then take. */
const LONGEST_HOLD = operations.getVerdict.maximum.wait
const GRACE = 5

/**
 * Creates `waitForState`. It reads with the `ETag` of the last answer, and decides over what it read. Between two reads it
 * asks the service to hold an answer until the verdict changes. Where that fails, it polls.
 */
export function createWaitForState({ listStatuses, getVerdict }: Calls): WaitForState {
  return async (input, options = {}) => {
    const { timeout = waitDefaults.timeout, interval = waitDefaults.interval, signal, onChange } = options
    const { require = [], only = false, settle = waitDefaults.settle, stalled } = options
    if (only && require.length === 0) throw new TypeError('"only" needs at least one pattern in "require"')
    const deadline = performance.now() + timeout
    const left = () => deadline - performance.now()
    let verdict: { etag: string | undefined } | undefined = { etag: undefined }
    let known: { etag: string | undefined; body: CommitStatuses } | undefined
    for (let pause = interval; ; pause = Math.min(pause * 1.5, interval * MAX_SLOWDOWN)) {
      const totalTimeout = Math.min(READ_TIMEOUT, Math.max(left(), LAST_READ_TIMEOUT))
      const answer = await listStatuses(input, { signal, totalTimeout, ifNoneMatch: known?.etag })
      if (answer.status === 200) {
        known = { etag: answer.headers.get('etag') ?? undefined, body: answer.body }
        pause = interval
      } else if (answer.status !== 304) return { outcome: 'unanswered', answer }
      if (known === undefined) throw new Error('the service answered 304 to a read without If-None-Match')
      const time = timeOf(answer.headers)
      const rules = { require, only, settle, stalled }
      const decision = decideWait(known.body.statuses, rules, time.getTime(), left() <= 0)
      const progress = { ...known.body, missing: decision.missing, time }
      if (answer.status === 200) onChange?.(progress)
      if (isFinal(decision)) return { ...progress, outcome: decision.outcome, decisive: decision.decisive }
      const start = performance.now()
      const end = start + Math.min(Math.max(decision.changesIn, interval), left())
      // Between three quarters of the pause and all of it, so that many waiting jobs spread.
      let next = start + pause * (0.75 + Math.random() / 4)
      // Leaves a second for the network.
      const wait = Math.min(LONGEST_HOLD, Math.floor((end - start) / 1_000) - 1)
      if (verdict && wait > 0) {
        const totalTimeout = Math.min((wait + GRACE) * 1_000, end - start)
        const call = { signal, timeout: totalTimeout, totalTimeout, ifNoneMatch: verdict.etag }
        const { status, headers } = await getVerdict({ ...input, require: [...require], wait }, call)
        if (status === 200) {
          verdict = { etag: headers.get('etag') ?? undefined }
          next = start + interval
        } else if (![304, 429, 503].includes(status)) verdict = undefined
        next = Math.max(next, performance.now() + (retryAfter(headers) ?? 0) * 1_000)
      }
      // Reads keep a minimum distance, whatever the service returns.
      await sleep(Math.min(next, end) - performance.now(), signal)
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
