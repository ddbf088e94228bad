/**
 * Shares a fixed amount, for example bytes of a disk, between clients.
 *
 * Holders never wait: a holder takes what it needs piece by piece. When there is no room, the
 * client that holds most gives way to one that holds less; a piece for which nobody gives way is
 * refused.
 */
export class SharedBudget {
  readonly #total: number
  readonly #share: number
  /** By client: what all its holders have. */
  readonly #held = new Map<string, number>()
  /** Those that can give way and have something. */
  readonly #yielding = new Set<Yielding>()
  #taken = 0

  /** @param share the most that one client may hold; everything by default */
  constructor(total: number, share = total) {
    this.#total = total
    this.#share = share
  }

  /** The amount that all clients hold together. */
  get taken(): number {
    return this.#taken
  }

  /** Returns the amount that a client holds. */
  heldBy(client: string): number {
    return this.#held.get(client) ?? 0
  }

  /**
   * Returns a holder that has nothing yet.
   *
   * @param onYield called when the holder has lost everything to another client. Without it, the
   * holder never gives way
   */
  open(client: string, onYield?: () => void): Holder {
    let own = 0
    let canYield = onYield !== undefined
    const add = (amount: number) => {
      const held = this.heldBy(client) + amount
      own += amount
      this.#taken += amount
      if (held > 0) this.#held.set(client, held)
      else this.#held.delete(client)
      if (own > 0 && canYield) this.#yielding.add(holder)
      else this.#yielding.delete(holder)
    }

    const holder: Yielding = {
      client,
      get held() {
        return own
      },
      take: (amount) => {
        const total = this.heldBy(client) + amount
        // What one holder alone has of its client is not bounded by the share.
        if (total > this.#share && total - amount !== own) return false
        while (this.#taken + amount > this.#total) {
          const largest = this.#largest(total)
          if (!largest) return false
          largest.yield()
        }
        add(amount)
        return true
      },
      release: (amount = own) => add(-Math.min(amount, own)),
      keep: () => {
        canYield = false
        this.#yielding.delete(holder)
      },
      yield: () => {
        holder.release()
        onYield?.()
      },
    }
    return holder
  }

  /**
   * Returns the holder that gives way to a client with `wanted`: the largest of the client that
   * holds most, if that is more.
   */
  #largest(wanted: number): Yielding | undefined {
    let largest: Yielding | undefined
    for (const holder of this.#yielding) {
      const more = this.heldBy(holder.client) - (largest ? this.heldBy(largest.client) : wanted)
      const isLarger = more > 0 || (more === 0 && largest && holder.held > largest.held)
      if (isLarger) largest = holder
    }
    return largest
  }
}

/** A part of a shared budget. */
export interface Holder {
  readonly held: number
  /**
   * Takes `amount`. Returns false, and takes nothing, if there is no room, or the client's share is
   * used up.
   */
  take(amount: number): boolean
  /** Releases `amount`, or everything. */
  release(amount?: number): void
  /** From now on the holder does not give way. */
  keep(): void
}

/** One that gives way. */
interface Yielding extends Holder {
  readonly client: string
  yield(): void
}
