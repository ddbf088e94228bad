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

  /** @param total of which one client may hold half */
  constructor(total: number) {
    this.#total = total
    this.#share = total / 2
  }

  /** Takes `amount` for a client. Returns false, and takes nothing, if that exceeds the total or the client's share. */
  take(client: string, amount: number): boolean {
    const held = (this.#held.get(client) ?? 0) + amount
    if (this.#taken + amount > this.#total || held > this.#share) return false
    this.#taken += amount
    this.#held.set(client, held)
    return true
  }

  /** Releases `amount` of what the client holds. */
  release(client: string, amount: number): void {
    const held = (this.#held.get(client) ?? 0) - amount
    this.#taken -= amount
    if (held > 0) this.#held.set(client, held)
    else this.#held.delete(client)
  }
}
