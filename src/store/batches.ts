/*
 * Calls that wait at once are one statement:
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
 * SQLite's group commit (sqlite/turn.ts) has one batch under way, whose statements share a
 * transaction. PostgreSQL's calls (postgres/calls.ts) share a statement.
 */

interface Batching<Call> {
  /** Maximum number of calls of a batch. */
  size: number
  /** Maximum number of batches under way. */
  width: number
  /** Returns whether a call may be in the next batch with these ones; the others overtake it. */
  mayJoin?(call: Call, batch: readonly Call[]): boolean
  /** Runs a batch. The promise resolves when another one may take its place, and never rejects. */
  run(batch: Call[]): Promise<void>
}

/** Collects calls and runs them in batches, in order of arrival. */
export class Batches<Call> {
  readonly #batching: Batching<Call>
  #waiting: Call[] = []
  readonly #underWay = new Set<Promise<void>>()
  #isScheduled = false

  constructor(batching: Batching<Call>) {
    this.#batching = batching
  }

  /** Number of calls whose batch has not begun. */
  get waiting(): number {
    return this.#waiting.length
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
      this.#underWay.add(ended)
    }
  }

  /** Waits until no call waits and no batch is under way. */
  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#underWay.size > 0) {
      this.begin()
      await Promise.all(this.#underWay)
    }
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
