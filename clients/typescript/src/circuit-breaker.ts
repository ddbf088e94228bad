import { retryAfter } from './backoff.ts'
import type { Answer } from './transport.ts'

/** Holds back the requests of one client that earlier answers have made pointless. */
export interface CircuitBreaker {
  /** Returns the 401 after which the client sends nothing more, or null. */
  refusal(): Answer | null
  /**
   * Returns the 429 or 503 whose `Retry-After` has not passed yet and the milliseconds that remain,
   * or null.
   */
  pause(): { answer: Answer; milliseconds: number } | null
  /** Records an answer. */
  record(answer: Answer): void
}

/** Waiting clients spread their return over this time after `Retry-After`, in milliseconds. */
const SPREAD = 250

/**
 * Creates the circuit breaker of one client.
 *
 * A token that was refused is not sent again: repeated failures would block the address for
 * everybody behind it. Without a token a 401 only says that this one repository needs one. A 403 is
 * not counted, and may concern one context.
 *
 * @param token whether requests carry a token
 */
export function createCircuitBreaker({ token }: { token: boolean }): CircuitBreaker {
  let refusal: Answer | null = null
  let pause: { answer: Answer; until: number } | null = null
  return {
    refusal: () => refusal,
    pause() {
      const milliseconds = pause ? pause.until - performance.now() : 0
      return pause && milliseconds > 0 ? { answer: pause.answer, milliseconds } : null
    },
    record(answer) {
      if (token && answer.status === 401) refusal ??= answer
      const seconds = answer.status === 429 || answer.status === 503 ? retryAfter(answer.headers) : null
      if (seconds !== null && seconds > 0) {
        const until = performance.now() + seconds * 1_000 + Math.random() * SPREAD
        if (until > (pause?.until ?? 0)) pause = { answer, until }
      }
    },
  }
}
