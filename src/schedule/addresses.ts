interface Watch {
  begin(address: string): void
  end(address: string): void
}

/** The addresses of all for whom one thing is done, each with its own turn. Callers add and remove them. */
export class Addresses {
  /** How many callers each address has. */
  readonly #counts = new Map<string, number>()
  readonly #watches = new Set<Watch>()

  /**
   * Adds an address, or all those of others as long as they are there.
   *
   * @returns a function that removes what was added
   */
  add(address: string | Addresses): () => void {
    if (address instanceof Addresses) return address.watch((each) => this.add(each))
    const count = this.#counts.get(address) ?? 0
    this.#counts.set(address, count + 1)
    if (count === 0) for (const watch of this.#watches) watch.begin(address)
    return () => this.#remove(address)
  }

  /**
   * Calls `begin` for each address, also for one that comes later, and what it returns when the address
   * is gone.
   *
   * @returns a function that ends all of them
   */
  watch(begin: (address: string) => () => void): () => void {
    const ends = new Map<string, () => void>()
    const watch: Watch = {
      begin: (address) => ends.set(address, begin(address)),
      end(address) {
        ends.get(address)?.()
        ends.delete(address)
      },
    }
    for (const address of this) watch.begin(address)
    this.#watches.add(watch)
    return () => {
      this.#watches.delete(watch)
      for (const end of ends.values()) end()
    }
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#counts.keys()
  }

  #remove(address: string): void {
    const count = this.#counts.get(address) ?? 0
    if (count > 1) this.#counts.set(address, count - 1)
    else if (this.#counts.delete(address)) for (const watch of this.#watches) watch.end(address)
  }
}
