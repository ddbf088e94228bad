import { FairQueue, type QueueClient } from './fair-queue.ts'

/** Milliseconds for which one client computes before others have their turn. */
const SLICE = 1
/** Milliseconds for which what is usually short computes before it takes turns. */
const AT_ONCE = 0.25
/** Clients that take turns. */
const MAX_RUNNING = 1_000

/** Reads what the next steps need. */
type Reading = () => Promise<void>

/**
 * Lets clients compute in turns. In each turn of the event loop one of them works, for about a
 * millisecond, so that other requests wait for no more, however many clients ask for something that
 * takes long.
 *
 * ```
 *              its client has no other that runs        one in each turn of the event loop
 *   run() ── waiting ────────────────────▶ running ──▶ waits for its turn ──▶ computes ──▶ done
 *              │                                           ▲    ▲                │
 *              └─ replaced, timeout: refused               │    └── slice ends ──┤
 *                                                          └────── reads ◀───────┘
 * ```
 *
 * Only who has not begun is refused because too many wait: what a client asks for next never ends
 * what it has waited for.
 */
export class Turns {
  readonly #running = new FairQueue({ slots: MAX_RUNNING, slotsPerClient: 1 })
  readonly #turns = queueOfRunning(1, { oncePerTurn: true })
  readonly #reads: FairQueue

  /** @param isRemote whether two may wait for the database at a time */
  constructor(isRemote: boolean) {
    this.#reads = queueOfRunning(isRemote ? 2 : 1)
  }

  /**
   * Takes steps until one returns true. A step should take much less than a millisecond; what it
   * returns instead of false is read before the next one.
   *
   * @throws QueueFull, the signal's reason, and what a step throws
   */
  async run(client: QueueClient, step: () => boolean | Reading): Promise<void> {
    const takeSteps = async () => {
      for (;;) {
        const result = await this.#takeTurn(client, step)
        if (result === true) return
        if (result !== false) await this.#reads.run(client, result)
      }
    }
    await this.#running.run(client, takeSteps)
  }

  /**
   * Takes all steps, and returns the result of the last one. Usually they are few, and taken at once.
   *
   * @throws as `run`
   */
  async finish<Result>(client: QueueClient, steps: Iterator<undefined, Result>): Promise<Result> {
    const { promise, resolve } = Promise.withResolvers<Result>()
    const step = () => {
      const { done, value } = steps.next()
      if (done) resolve(value)
      return done === true
    }
    const end = performance.now() + AT_ONCE
    while (!step())
      if (performance.now() >= end) {
        await this.run(client, step)
        break
      }
    return promise
  }

  #takeTurn(client: QueueClient, step: () => boolean | Reading): Promise<boolean | Reading> {
    return this.#turns.run(client, () => {
      const end = performance.now() + SLICE
      for (;;) {
        const result = step()
        if (result !== false || performance.now() >= end) return result
      }
    })
  }
}

/** Returns a queue of clients that run. Each has one caller, so that none is refused. */
function queueOfRunning(slots: number, options: { oncePerTurn?: boolean } = {}): FairQueue {
  return new FairQueue({ slots, slotsPerClient: 1, waiting: MAX_RUNNING, waitingPerClient: 1, ...options })
}
