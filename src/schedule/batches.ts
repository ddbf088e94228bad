/*
 * Calls that wait at once are one statement, transaction or question:
 *
 *   call ──┐
 *   call ──┼──▶ waiting ── end of the turn, ──▶ under way ── all calls of the batch ──▶ answered
 *   call ──┘       ▲       or of a batch            │        at once
 *                  │                                │
 *                  └───── calls that arrive ────────┘
 *
 * A batch begins at the end of a turn of the event loop, so that all requests of the turn share it,
 * and a call that comes alone does not wait for others. While as many batches are under way as may
 * be, calls wait. So batches become larger the busier the database is, and cost less for each call.
 *
 * A call never joins a batch that has begun. So its statement begins after the call was made, and
 * sees everything that was committed before.
 *
 * SQLite's group commit (store/sqlite/turn.ts) has one batch under way, whose statements share a
 * transaction. PostgreSQL's calls (store/postgres/calls.ts) share a statement. Look-ups of objects
 * (git/objects/lookup-queue.ts) share a write to git, and what is looked at before it.
 */

interface Batching<Call> {
  /** Maximum number of calls of a batch; all that wait by default. */
  size?: number
  /** Maximum number of batches under way, 1 by default. */
  width?: number
  /** Milliseconds after which a batch no longer keeps others from beginning. */
  slowAfter?: number
  /** Returns whether a call may be in the next batch with these ones; the others overtake it. */
  mayJoin?(call: Call, batch: readonly Call[]): boolean
  /** Runs a batch. The promise resolves when it has ended, and never rejects. */
  run(batch: Call[]): Promise<void>
}

/** Collects calls and runs them in batches, in order of arrival. */
export class Batches<Call> {
  readonly #batching: Batching<Call> & { size: number; width: number }
  #waiting: Call[] = []
  /** When each batch under way began. The first one is the oldest. */
  readonly #underWay = new Map<Promise<void>, number>()
  #isScheduled = false
  /** Set only when calls have to wait, since a timer for each batch costs as much as the rest of it. */
  #slowTimer: NodeJS.Timeout | undefined

  constructor(batching: Batching<Call>) {
    this.#batching = { size: Number.POSITIVE_INFINITY, width: 1, ...batching }
  }

  /** Number of calls whose batch has not begun. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Whether no call waits and no batch is under way, except slow ones. See `slowAfter`. */
  get isIdle(): boolean {
    return this.#waiting.length === 0 && this.#underWay.size === 0
  }

  /** Adds a call to the next batch. */
  add(call: Call): void {
    this.#waiting.push(call)
    this.schedule()
  }

  /** Begins what may begin at the end of this turn of the event loop. */
  schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.begin()
    })
  }

  /** Begins as many batches as may be under way. */
  begin(): void {
    while (this.#waiting.length > 0 && this.#underWay.size < this.#batching.width) {
      const batch = this.#take()
      if (batch.length === 0) return
      const ended = this.#batching.run(batch).then(() => {
        this.#underWay.delete(ended)
        this.schedule()
      })
      this.#underWay.set(ended, performance.now())
    }
    if (this.#waiting.length > 0) this.#overtakeSlow()
  }

  /** Waits until no call waits and no batch is under way, except slow ones. */
  async idle(): Promise<void> {
    while (!this.isIdle) {
      this.begin()
      await Promise.all(this.#underWay.keys())
    }
  }

  /** Begins batches once those under way are slow. */
  #overtakeSlow(): void {
    const { slowAfter } = this.#batching
    const [oldest] = this.#underWay.values()
    if (slowAfter === undefined || oldest === undefined || this.#slowTimer) return
    const overtake = () => {
      this.#slowTimer = undefined
      for (const [ended, since] of this.#underWay)
        if (performance.now() - since >= slowAfter) this.#underWay.delete(ended)
      this.begin()
    }
    this.#slowTimer = setTimeout(overtake, Math.max(1, oldest + slowAfter - performance.now())).unref()
  }

  #take(): Call[] {
    const { size, mayJoin } = this.#batching
    if (mayJoin === undefined) return this.#waiting.splice(0, size)
    const batch: Call[] = []
    this.#waiting = this.#waiting.filter((call) => {
      const joins = batch.length < size && mayJoin(call, batch)
      if (joins) batch.push(call)
      return !joins
    })
    return batch
  }
}
