import type { ReportedContext } from '../domain/verdict.ts'
import type { CommitKey } from '../store/statuses.ts'

/** What a request waits for. */
export interface Wait {
  /** When the wait ends, by `performance.now()`. */
  until: number
  /** How many contexts the commit has. */
  contexts: number
  /** How many contexts the request compares with patterns. */
  comparisons: number
  /** Digest of the answer that the request has. */
  known: string
  /** Requests for a commit with the same question have the same digest. */
  question: string
  /** Returns the digest of what the request would answer now. */
  digest(reported: readonly ReportedContext[]): Promise<string>
}

/** A waiting request. */
export class Waiter {
  readonly wait: Wait
  /** Ends the wait, with an error if there is one. May be called more than once. */
  readonly end: (error?: unknown) => void
  /** The contents of its last look. */
  seen: string | null | undefined

  constructor(wait: Wait, end: (error?: unknown) => void) {
    this.wait = wait
    this.end = end
  }
}

/** A commit that requests wait for. */
export class WaitedCommit {
  readonly key: CommitKey
  /** Largest number of its contexts when a request began to wait. */
  contexts = 0
  readonly waiters = new Set<Waiter>()
  /** Number of waiting requests, and of contexts that they are charged for, by client. */
  readonly clients = new Map<string, { waiting: number; contexts: number }>()
  /** The contexts and states at the last look, as `statuses.snapshots` returns them. */
  #contents: string | null | undefined
  #isAsking = false

  constructor(key: CommitKey) {
    this.key = key
  }

  /** Whether some request has not had its first look. */
  get hasNewWaiter(): boolean {
    for (const { seen } of this.waiters) if (seen === undefined) return true
    return false
  }

  /** Ends all waits. */
  endAll(error?: unknown): void {
    for (const waiter of this.waiters) waiter.end(error)
  }

  /** Ends the waits whose response these contents change. Asks each waiter once per contents. */
  async look(contents: string | null): Promise<void> {
    // Comparing a text with itself takes no time.
    if (this.#contents !== contents) this.#contents = contents
    if (this.#isAsking) return
    this.#isAsking = true
    try {
      // Contents that arrive during a round are dealt with in the next one, so frequent reports starve no waiter.
      for (let due = this.#unasked(); due.length > 0; due = this.#unasked()) await this.#ask(due)
    } finally {
      this.#isAsking = false
    }
  }

  #unasked(): Waiter[] {
    return [...this.waiters].filter(({ seen }) => seen !== this.#contents)
  }

  async #ask(due: readonly Waiter[]): Promise<void> {
    const contents = this.#contents ?? null
    const reported = parse(contents)
    const digests = new Map<string, Promise<string>>()
    for (const waiter of due) {
      if (!this.waiters.has(waiter)) continue
      waiter.seen = contents
      const { question, digest, known } = waiter.wait
      try {
        const current = digests.get(question) ?? digest(reported)
        digests.set(question, current)
        if ((await current) !== known) waiter.end()
      } catch (error) {
        waiter.end(error)
      }
    }
  }
}

function parse(contents: string | null): ReportedContext[] {
  // As written by `statuses.snapshots`, from columns of these types.
  const pairs: [ReportedContext['context'], ReportedContext['state']][] = JSON.parse(contents ?? '[]')
  return pairs.map(([context, state]) => ({ context, state }))
}
