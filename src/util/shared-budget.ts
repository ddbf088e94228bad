/**
 * Shares a fixed amount, for example bytes of memory, between clients. No client holds more than half of it.
 *
 * Callers never wait: a caller takes what it needs piece by piece and gives up when a piece is refused.
 */
export class SharedBudget {
  readonly #total: number
  readonly #held = new Map<string, number>()
  #taken = 0

  constructor(total: number) {
    this.#total = total
  }

  /** The amount that all clients hold together. */
  get taken(): number {
    return this.#taken
  }

  /** Takes `amount` for a client. Returns false, and takes nothing, if that exceeds the total or the client's half. */
  take(client: string, amount: number): boolean {
    const held = (this.#held.get(client) ?? 0) + amount
    if (this.#taken + amount > this.#total || held > this.#total / 2) return false
    this.#taken += amount
    this.#held.set(client, held)
    return true
  }

  /** Returns `amount` of what the client has taken to the budget. */
  giveBack(client: string, amount: number): void {
    const held = (this.#held.get(client) ?? 0) - amount
    this.#taken -= amount
    if (held > 0) this.#held.set(client, held)
    else this.#held.delete(client)
  }
}
