/** Rows and entries kept, both together; the oldest go. */
const MOST = 200_000

/**
 * Rows that were read, for as long as they are surely what a new read would give. Whoever uses it clears it when the
 * database has changed; a write of one's own drops what it touches.
 */
export class RowCache {
  readonly #entries = new Map<string, unknown[]>()
  #size = 0

  get(key: string): unknown[] | undefined {
    return this.#entries.get(key)
  }

  set(key: string, rows: unknown[]): void {
    this.drop(key)
    this.#entries.set(key, rows)
    this.#size += rows.length + 1
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= MOST) break
      this.drop(oldest)
    }
  }

  drop(key: string): void {
    const rows = this.#entries.get(key)
    if (rows === undefined) return
    this.#size -= rows.length + 1
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
    this.#size = 0
  }
}
