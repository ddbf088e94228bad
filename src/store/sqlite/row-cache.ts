/** Bytes of memory for rows, about; what callers make of them takes a few times as much. The oldest go. */
const MOST = 64 * 1024 * 1024
/** Of a key or a part of it, of a row and of a value in it, beside the characters of a text. */
const OVERHEAD = { part: 300, row: 100, value: 16 }

/**
 * Rows that were read, for as long as they are surely what a new read would give. Whoever uses it clears it when the
 * database has changed; a write of one's own drops what it touches.
 */
export class RowCache {
  readonly #entries = new Map<string, Entry>()
  readonly #most: number
  #size = 0

  /** @param most bytes, about; rows that are larger than that by themselves are not kept */
  constructor(most: number = MOST) {
    this.#most = most
  }

  get(key: string, part = ''): unknown[] | undefined {
    return this.#entries.get(key)?.parts.get(part)
  }

  /** Where rows are kept already, they stay. */
  set(key: string, part: string, rows: unknown[]): void {
    const size = sizeOf(rows)
    if (size > this.#most) return
    let entry = this.#entries.get(key)
    if (entry === undefined) {
      entry = { parts: new Map(), size: 0 }
      this.#entries.set(key, entry)
    }
    if (entry.parts.has(part)) return
    entry.parts.set(part, rows)
    entry.size += size
    this.#size += size
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= this.#most) break
      this.drop(oldest)
    }
  }

  /** Forgets all parts of the key. */
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

interface Entry {
  parts: Map<string, unknown[]>
  size: number
}

/** A text takes one byte a character, or two. */
function sizeOf(rows: unknown[]): number {
  let size = OVERHEAD.part
  for (const row of rows) {
    size += OVERHEAD.row
    for (const value of Object.values(Object(row)))
      size += OVERHEAD.value + (typeof value === 'string' ? 2 * value.length : 0)
  }
  return size
}
