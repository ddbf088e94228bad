/** Bytes of memory for rows, about; what callers make of them takes a few times as much. The oldest go. */
const MOST = 64 * 1024 * 1024
/** Of an entry, of a row and of a value in it, beside the characters of a text. */
const OVERHEAD = { entry: 200, row: 100, value: 16 }

/**
 * Rows that were read, for as long as they are surely what a new read would give. Whoever uses it clears it when the
 * database has changed; a write of one's own drops what it touches.
 */
export class RowCache {
  readonly #entries = new Map<string, { rows: unknown[]; size: number }>()
  readonly #most: number
  #size = 0

  /** @param most bytes, about; rows that are larger than that by themselves are not kept */
  constructor(most: number = MOST) {
    this.#most = most
  }

  get(key: string): unknown[] | undefined {
    return this.#entries.get(key)?.rows
  }

  set(key: string, rows: unknown[]): void {
    this.drop(key)
    const size = sizeOf(rows)
    if (size > this.#most) return
    this.#entries.set(key, { rows, size })
    this.#size += size
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= this.#most) break
      this.drop(oldest)
    }
  }

  drop(key: string): void {
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    this.#size -= entry.size
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
    this.#size = 0
  }
}

/** A text takes one byte a character, or two. */
function sizeOf(rows: unknown[]): number {
  let size = OVERHEAD.entry
  for (const row of rows) {
    size += OVERHEAD.row
    for (const value of Object.values(Object(row)))
      size += OVERHEAD.value + (typeof value === 'string' ? 2 * value.length : 0)
  }
  return size
}
