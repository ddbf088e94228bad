/**
 * Keys whose calls were slow or failed. For a while they are kept apart from others, which would
 * wait for them or fail with them: a circuit breaker that lets its calls through, but alone.
 */
export class IsolatedKeys {
  readonly #duration: number
  /** Until when each key is one. The first one ends first. */
  readonly #ends = new Map<string, number>()

  /** @param duration milliseconds from the last time that a call of the key was slow or failed */
  constructor(duration: number) {
    this.#duration = duration
  }

  /** Calls without a key have nothing in common, so that none is isolated for another one. */
  add(key: string | undefined): void {
    if (key === undefined) return
    const now = performance.now()
    for (const [other, end] of this.#ends) {
      if (end > now) break
      this.#ends.delete(other)
    }
    this.#ends.delete(key)
    this.#ends.set(key, now + this.#duration)
  }

  has(key: string | undefined): boolean {
    const end = key === undefined ? undefined : this.#ends.get(key)
    return end !== undefined && end > performance.now()
  }
}
