import { shareOfMemory } from '../../util/memory.ts'

/**
 * Approximate bytes of memory for cached rows. What callers derive from them takes a few times as
 * much.
 */
const MAX_SIZE = shareOfMemory(64)
/** Bytes for each result, row and value, in addition to the characters of texts, keys and variants. */
const OVERHEAD = { result: 300, row: 100, value: 16 }

interface Entry {
  /** Results by variant. */
  results: Map<string, unknown[]>
  size: number
}

/**
 * Caches the rows of queries by a key and a variant: all variants of a key are invalidated
 * together. The oldest keys are evicted first. Does not detect stale rows; see turn.ts.
 *
 * Not an `LRUCache`: whenever another process has committed, all rows are cleared, and its `clear` takes
 * the time of the most entries that it ever had: 2 ms after 200,000 of them, once in a turn. That of a
 * `Map` takes the time of those that are there.
 */
export class RowCache {
  readonly #entries = new Map<string, Entry>()
  readonly #maxSize: number
  #size = 0

  /** @param maxSize approximate bytes; a larger result is not cached */
  constructor(maxSize: number = MAX_SIZE) {
    this.#maxSize = maxSize
  }

  /**
   * Returns the very same array that was stored. A key and its variant belong to one query, which
   * decides the type.
   */
  get<Row>(key: string, variant = ''): Row[] | undefined {
    return this.#entries.get(key)?.results.get(variant) as Row[] | undefined
  }

  /** Stores rows, unless there are some already. */
  set(key: string, variant: string, rows: unknown[]): void {
    const size = 2 * (key.length + variant.length) + sizeOf(rows)
    if (size > this.#maxSize) return
    let entry = this.#entries.get(key)
    if (entry === undefined) {
      entry = { results: new Map(), size: 0 }
      this.#entries.set(key, entry)
    }
    if (entry.results.has(variant)) return
    entry.results.set(variant, rows)
    entry.size += size
    this.#size += size
    // A new iterator passes over keys that were dropped, so there is none unless something must go,
    // and one for all that must.
    if (this.#size <= this.#maxSize) return
    for (const oldest of this.#entries.keys()) {
      this.drop(oldest)
      if (this.#size <= this.#maxSize) return
    }
  }

  /** Drops all variants of the key. */
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

/** Returns an estimate in bytes. A character takes one byte or two. */
function sizeOf(rows: readonly unknown[]): number {
  let size = OVERHEAD.result
  for (const row of rows) {
    size += OVERHEAD.row
    if (typeof row !== 'object' || row === null) continue
    const values: unknown[] = Object.values(row)
    for (const value of values) size += OVERHEAD.value + (typeof value === 'string' ? 2 * value.length : 0)
  }
  return size
}
