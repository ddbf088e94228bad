import { randomFillSync } from 'node:crypto'

/** Values that one call to the system provides for. */
const COUNT = 256

/**
 * Returns a function that gives `length` random bytes, from a pool: asking the system costs nearly as much for a few bytes
 * as for many. The bytes are to be used at once; later calls overwrite them.
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
