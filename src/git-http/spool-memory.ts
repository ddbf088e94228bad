import type { Holder, SharedBudget } from '../schedule/shared-budget.ts'

/** Bytes that a chunk in memory takes besides its content. They matter for many small chunks. */
const CHUNK_OVERHEAD = 512

/**
 * The memory of the bytes that a stream has given to its reader before that asked for them.
 * Positions count the bytes of the stream from its start.
 *
 * ```
 *   free ── take ──▶ taken up to a position ── release: the reader has got there ──▶ free
 *                      ▲   │
 *                      └───┘ take: the position moves on
 * ```
 */
export class SpoolMemory {
  readonly #held: Holder
  readonly #limit: number
  #end = 0

  /**
   * @param limit of one stream, in bytes
   * @param onYield see `SharedBudget`
   */
  constructor(client: string, budget: SharedBudget, limit: number, onYield?: () => void) {
    this.#held = budget.open(client, onYield)
    this.#limit = limit
  }

  /** Returns whether there is room for chunks. @param end the position of the stream after them */
  take(chunks: readonly Buffer[], length: number, end: number): boolean {
    const size = length + chunks.length * CHUNK_OVERHEAD
    if (this.#held.held + size > this.#limit || !this.#held.take(size)) return false
    this.#end = end
    return true
  }

  /** From now on the memory does not give way. */
  keep(): void {
    this.#held.keep()
  }

  /** Frees the memory if all that takes it is before a position, which the reader has reached. */
  release(position: number): void {
    if (position >= this.#end) this.#held.release()
  }
}
