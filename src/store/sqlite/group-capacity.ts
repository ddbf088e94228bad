/** Maximum number of groups in memory. Beyond it, all are counted again. */
const MAX_GROUPS = 10_000

/**
 * Remembers how many rows can still be added to groups whose size is limited, so that a group is counted once and not
 * before every write. To be cleared when another connection may have written, and after a rollback.
 */
export class GroupCapacity {
  readonly #left = new Map<string, number>()

  isKnown(group: string): boolean {
    return this.#left.has(group)
  }

  isFull(group: string): boolean {
    return (this.#left.get(group) ?? 0) <= 0
  }

  /** @param left rows that can be added */
  set(group: string, left: number): void {
    if (this.#left.size >= MAX_GROUPS && !this.#left.has(group)) this.#left.clear()
    this.#left.set(group, left)
  }

  /** Counts an added row. */
  take(group: string): void {
    this.#left.set(group, (this.#left.get(group) ?? 0) - 1)
  }

  clear(): void {
    this.#left.clear()
  }
}
