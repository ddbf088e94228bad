import type { ListStatusesResult } from './generated/operations.ts'
import type { Result } from './operation.ts'
import { sleep } from './sleep.ts'
import { RETRIED } from './transport.ts'

/** How something is read again and again. Times are in milliseconds. */
export interface PollOptions {
  timeout: number
  /**
   * Longest pause between two reads; 3 times that after half a minute, 5 times after five minutes.
   */
  interval: number
  /** How long a commit that is not found is asked for again, within `timeout`. */
  waitForCommit?: number | undefined
  /** Longest time of all attempts of one read; 30,000 by default. */
  readTimeout?: number | undefined
  signal?: AbortSignal | undefined
  /**
   * Called with the problem when all attempts of one read have failed, and with null once a read
   * succeeds again.
   */
  onOutage?: ((problem: string | null) => void) | undefined
}

/** What a poll passes to each read; see `CallOptions`. */
export interface ReadOptions {
  signal?: AbortSignal | undefined
  totalTimeout?: number | undefined
  waitForCommit?: number | undefined
  ifNoneMatch?: string | undefined
}

/** What a read found. */
export interface Reading<Body> {
  body: Body
  /** Whether this is the first reading, or differs from the one before. */
  isNew: boolean
  /** The service's time when it answered. */
  time: Date
  timedOut: boolean
}

/**
 * The end, or the milliseconds until time alone can bring it, or why a further read that the
 * decision needs has failed.
 */
export type Step<End> = { end: End } | { changesIn: number } | { failure: Failure }
type Failure = Exclude<ListStatusesResult, { status: 200 | 304 }>
/** The service refused, or could not be reached until the timeout. */
export type Unanswered = { outcome: 'unanswered'; answer: Failure }

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
 * Returns a pause between three quarters of the longest one and all of it, so that many waiting
 * jobs spread.
 */
export function pauseAfter(waited: number, interval: number): number {
  return interval * slowdown(waited) * (0.75 + Math.random() / 4)
}

/**
 * Reads with the `ETag` of the last answer until `decide` returns an end, as it must once the time
 * is over. An outage ends it only at the timeout.
 *
 * @throws the signal's reason
 */
export async function poll<Body, End>(
  read: (options: ReadOptions) => Promise<Result<200, Body> | Result<304, undefined> | Failure>,
  { timeout, interval, waitForCommit = 0, readTimeout = 30_000, signal, onOutage }: PollOptions,
  decide: (reading: Reading<Body>) => Step<End> | Promise<Step<End>>,
): Promise<End | Unanswered> {
  const start = performance.now()
  const left = () => start + timeout - performance.now()
  let known: { etag: string | undefined; body: Body } | undefined
  let hasAnswered = false
  let isAway = false
  /** Milliseconds of outages: they do not count as waiting for the commit. */
  let lost = 0

  async function step(): Promise<Step<End>> {
    const answer = await read({
      signal,
      totalTimeout: Math.min(readTimeout, Math.max(left(), LAST_READ_TIMEOUT)),
      waitForCommit: hasAnswered ? 0 : Math.min(start + lost + waitForCommit - performance.now(), left()),
      ifNoneMatch: known?.etag,
    })
    if (answer.status === 200) {
      known = { etag: answer.headers.get('etag') ?? undefined, body: answer.body }
    } else if (answer.status !== 304) return { failure: answer }
    if (known === undefined) throw new Error('the service answered 304 to a read without If-None-Match')
    hasAnswered = true
    const time = timeOf(answer.headers)
    const next = await decide({
      body: known.body,
      isNew: answer.status === 200,
      time,
      timedOut: left() <= 0,
    })
    // What was read has not been acted on.
    if ('failure' in next) known = undefined
    return next
  }

  for (;;) {
    const begun = performance.now()
    const next = await step()
    if ('end' in next) {
      if (isAway) onOutage?.(null)
      return next.end
    }
    if ('failure' in next) {
      const { failure } = next
      if (left() <= 0 || !mayPass(failure, hasAnswered)) return { outcome: 'unanswered', answer: failure }
      if (!isAway) onOutage?.(failure.body.error)
    } else if (isAway) onOutage?.(null)
    isAway = 'failure' in next
    const changesIn = 'changesIn' in next ? next.changesIn : 0
    const pause = pauseAfter(performance.now() - start, interval)
    await sleep(Math.min(pause, Math.max(changesIn, interval), left()), signal)
    signal?.throwIfAborted()
    if (isAway) lost += performance.now() - begun
  }
}

/**
 * Returns whether a later read may succeed. Something else that answers in place of the service
 * means a wrong address, unless the service has answered before.
 */
function mayPass({ status, body }: Failure, hasAnswered: boolean): boolean {
  if (status !== 0) return RETRIED.includes(status)
  return body.reason === 'unreachable' || (body.reason === 'unexpected' && hasAnswered)
}

/** Returns the service's time, whose clock also wrote the timestamps. A gateway may drop `Date`. */
function timeOf(headers: Headers): Date {
  const time = new Date(headers.get('date') ?? '')
  return Number.isNaN(time.getTime()) ? new Date() : time
}
