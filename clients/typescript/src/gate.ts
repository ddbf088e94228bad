import { retryAfter } from './backoff.ts'
import type { Answer } from './exchange.ts'

/** What earlier answers forbid to all requests of one client. */
export interface Gate {
  /** The 401 or 403 after which nothing more is sent. */
  refusal(): Answer | null
  /** The 429 or 503 whose `Retry-After` has not passed yet, and for how many milliseconds. */
  pause(): { answer: Answer; milliseconds: number } | null
  /** Learns from an answer. */
  note(answer: Answer): void
}

/** Waiting clients spread their return over this time after `Retry-After`. */
const SPREAD = 250

/**
 * A token that was refused is not tried again: repeated failures would block the address for everybody. Without a token
 * there is nothing to refuse, and a 401 only says that this one repository needs one.
 */
export function createGate({ token }: { token: boolean }): Gate {
  let refusal: Answer | null = null
  let pause: { answer: Answer; until: number } | null = null
  return {
    refusal: () => refusal,
    pause() {
      const milliseconds = pause ? pause.until - performance.now() : 0
      return pause && milliseconds > 0 ? { answer: pause.answer, milliseconds } : null
    },
    note(answer) {
      if (token && (answer.status === 401 || answer.status === 403)) refusal ??= answer
      const seconds = answer.status === 429 || answer.status === 503 ? retryAfter(answer.headers) : null
      if (seconds !== null && seconds > 0) {
        const until = performance.now() + seconds * 1_000 + Math.random() * SPREAD
        if (until > (pause?.until ?? 0)) pause = { answer, until }
      }
    },
  }
}
