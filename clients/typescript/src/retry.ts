import { backoff } from './backoff.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'
import { LONGEST_TIMER, sleep } from './sleep.ts'
import { type Answer, type Outcome, unanswered } from './transport.ts'

export interface RetryOptions {
  /** Longest time of one attempt, in milliseconds. */
  timeout: number
  /** When all attempts must be over, by `performance.now()`. */
  deadline: number
  /** The caller's signal. */
  signal: AbortSignal | undefined
  /** Aborted when a newer request makes further attempts pointless. */
  superseded: AbortSignal | undefined
}

/** Pause before a commit that was not found is asked for again, in milliseconds. */
const NOT_FOUND_PAUSE = 2_000

/**
 * Sends a request with retries, and again while the answer is 404 and `waitForCommit` has not
 * passed.
 *
 * @param start when the call began, by `performance.now()`
 * @returns the last answer
 * @throws the signal's reason once it is aborted
 */
export async function sendUntilFound(
  breaker: CircuitBreaker,
  send: (signal: AbortSignal) => Promise<Outcome>,
  {
    totalTimeout,
    start,
    waitForCommit,
    ...options
  }: Omit<RetryOptions, 'deadline'> & { totalTimeout: number; start: number; waitForCommit: number },
): Promise<Answer> {
  for (let deadline = start + totalTimeout; ; deadline = performance.now() + totalTimeout) {
    const answer = await sendWithRetry(breaker, send, { ...options, deadline })
    const left = start + waitForCommit - performance.now()
    if (answer.status !== 404 || left <= 0) return answer
    // Nothing tells when a mirror brings the commit.
    await sleep(Math.min(NOT_FOUND_PAUSE, left), options.signal, options.superseded)
    if (options.superseded?.aborted) return answer
  }
}

/**
 * Sends a request until it gets an answer that another attempt would not change, or until the
 * deadline.
 *
 * @returns the last answer
 * @throws the signal's reason once it is aborted
 */
async function sendWithRetry(
  breaker: CircuitBreaker,
  send: (signal: AbortSignal) => Promise<Outcome>,
  { timeout, deadline, signal, superseded }: RetryOptions,
): Promise<Answer> {
  const left = () => deadline - performance.now()
  let previous: Answer | undefined
  for (let index = 0; ; index++) {
    signal?.throwIfAborted()
    const refusal = breaker.refusal()
    if (refusal) return notSent(refusal)
    const pause = breaker.pause()
    if (pause) {
      if (pause.milliseconds >= left() || superseded?.aborted) return pause.answer
      await sleep(pause.milliseconds, signal, superseded)
      continue
    }
    // A timer may fire late: then the answer before it tells the reason.
    if (left() <= 0) return previous ?? unanswered('unreachable', 'not sent: the time limit was reached')
    const budget = Math.min(timeout, left())
    const { answer, retry } = await sendOnce(send, budget, signal)
    signal?.throwIfAborted()
    // An attempt that the deadline cut short says less than the one before it. Timers round down to
    // milliseconds.
    if (previous && answer.status === 0 && budget < timeout && left() < 1) return previous
    previous = answer
    breaker.record(answer)
    const delay = backoff(index)
    if (!retry || superseded?.aborted || delay >= left()) return answer
    await sleep(delay, signal, superseded)
    if (superseded?.aborted) return answer
  }
}

async function sendOnce(
  send: (signal: AbortSignal) => Promise<Outcome>,
  milliseconds: number,
  signal: AbortSignal | undefined,
): Promise<Outcome> {
  // AbortSignal.any of AbortSignal.timeout can be garbage collected before it fires (Node 20).
  const controller = new AbortController()
  const stop = () => controller.abort(signal?.reason)
  const timer = setTimeout(
    () => controller.abort(new Error(`timed out after ${Math.round(milliseconds)} ms`)),
    Math.min(milliseconds, LONGEST_TIMER),
  )
  signal?.addEventListener('abort', stop)
  try {
    return await send(controller.signal)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}

function notSent({ status, body, headers }: Answer): Answer {
  const reason = typeof body === 'object' && body !== null && 'error' in body ? `: ${body.error}` : ''
  return {
    status,
    body: { error: `not sent, since an earlier request was answered ${status}${reason}` },
    headers,
  }
}
