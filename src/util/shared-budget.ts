/**
 * Shares a fixed amount, for example bytes of memory, between clients.
 *
 * Callers never wait: a caller takes what it needs piece by piece and gives up when a piece is refused.
 */
export class SharedBudget {
  readonly #total: number
  readonly #share: number
  readonly #held = new Map<string, number>()
  #taken = 0

  /** @param share the most that one client may hold; half of the total by default */
  constructor(total: number, share = total / 2) {
    this.#total = total
    this.#share = share
  }

  /** The amount that all clients hold together. */
  get taken(): number {
    return this.#taken
  }

  /** The number of clients that hold anything. */
  get clients(): number {
    return this.#held.size
  }

  /** Returns the amount that a client holds. */
  heldBy(client: string): number {
    return this.#held.get(client) ?? 0
  }

  /**
   * Takes `amount` for a client. Returns false, and takes nothing, if that exceeds the total or the client's share.
   *
   * @param own what the caller itself holds already. If that is all that the client holds, its share is no limit
   */
  take(client: string, amount: number, own = Number.NaN): boolean {
    const held = this.heldBy(client)
    if (this.#taken + amount > this.#total) return false
    if (held + amount > this.#share && held !== own) return false
    this.#taken += amount
    this.#held.set(client, held + amount)
    return true
  }

  /** Releases `amount` of what the client holds. */
  release(client: string, amount: number): void {
    const held = this.heldBy(client) - amount
    this.#taken -= amount
    if (held > 0) this.#held.set(client, held)
    else this.#held.delete(client)
  }
}
