/** Milliseconds that decide whose turn is next: clients that differ by less take turns. */
const UNIT = 1_000
/** Milliseconds that count at most: who holds nothing falls behind newcomers for no longer. */
const MOST = 10_000
/**
 * Milliseconds that are forgotten at once: turns of computations and pages take less. A request to git
 * counts, since an address could have one after the other.
 */
const LEAST = 100

interface Use {
  held: number
  /** What counted at `at`. */
  time: number
  at: number
}

/**
 * Remembers for how long clients have held slots lately.
 *
 * ```
 *   holds n slots:  n seconds more in each second, up to 10
 *   holds none:     1 second less in each second, also while it waits; below 0.1: forgotten
 * ```
 *
 * A client that holds nothing is remembered for no longer than it has held slots. So on average no
 * more of them are remembered than there are slots.
 */
export class SlotTime {
  readonly #uses = new Map<string, Use>()
  readonly #now: () => number

  /** @param now returns milliseconds */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  take(client: string): void {
    this.#count(client, 1)
  }

  release(client: string): void {
    this.#count(client, -1)
  }

  /** Returns whole seconds. */
  secondsOf(client: string): number {
    const use = this.#uses.get(client)
    return use ? Math.floor(timeOf(use, this.#now()) / UNIT) : 0
  }

  #count(client: string, change: 1 | -1): void {
    const now = this.#now()
    const use = this.#uses.get(client)
    const held = (use?.held ?? 0) + change
    this.#uses.set(client, { held, time: use ? timeOf(use, now) : 0, at: now })
    if (held === 0) this.#forget(now)
  }

  #forget(now: number): void {
    for (const [client, use] of this.#uses)
      if (use.held === 0 && timeOf(use, now) < LEAST) this.#uses.delete(client)
  }
}

function timeOf({ held, time, at }: Use, now: number): number {
  return held > 0 ? Math.min(MOST, time + held * (now - at)) : Math.max(0, time - (now - at))
}
