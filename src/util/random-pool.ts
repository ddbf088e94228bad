import { randomFillSync } from 'node:crypto'

/** Number of values for which random bytes are read at once. */
const COUNT = 256

/**
 * Returns a function that returns `length` random bytes from a pool, because a system call for a few bytes costs nearly as
 * much as one for many. Use the bytes before the next call; later calls overwrite them.
 */
export function randomPool(length: number): () => Buffer {
  const pool = Buffer.alloc(COUNT * length)
  let used = pool.length
  return () => {
    if (used === pool.length) {
      randomFillSync(pool)
      used = 0
    }
    used += length
    return pool.subarray(used - length, used)
  }
}
