import { LRUCache } from 'lru-cache'

/** Approximate bytes of memory for cached rows. What callers derive from them takes a few times as much. */
const MAX_SIZE = 64 * 1024 * 1024
/** Bytes for each result, row and value, in addition to the characters of a text. */
const OVERHEAD = { result: 300, row: 100, value: 16 }

/**
 * Caches the rows of queries by a key and a variant: all variants of a key are invalidated together, and evicted together.
 * Does not detect stale rows; see turn.ts.
 */
export class RowCache {
  /** Results by variant. */
  readonly #entries: LRUCache<string, Map<string, unknown[]>>

  /** @param maxSize approximate bytes; a larger result is not cached */
  constructor(maxSize: number = MAX_SIZE) {
    this.#entries = new LRUCache({ maxSize })
  }

  /** Returns the very same array that was stored. A key and its variant belong to one query, which decides the type. */
  get<Row>(key: string, variant = ''): Row[] | undefined {
    return this.#entries.get(key)?.get(variant) as Row[] | undefined
  }

  /** Stores rows, unless there are some already. */
  set(key: string, variant: string, rows: unknown[]): void {
    const stored = this.#entries.peek(key) ?? new Map<string, unknown[]>()
    if (stored.has(variant)) return
    const size = (this.#entries.info(key)?.size ?? 0) + sizeOf(rows)
    // A new map: the size of the same value would not be updated.
    this.#entries.set(key, new Map([...stored, [variant, rows]]), { size })
  }

  /** Drops all variants of the key. */
  drop(key: string): void {
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
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
