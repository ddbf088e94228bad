import { getRandomValues } from 'node:crypto'
import { v7 } from 'uuid'

const LENGTH = 16
/** Randomness for the next ids: asking for it costs nearly as much for one as for many. */
const pool = new Uint8Array(256 * LENGTH)
let used = pool.length

/** A new UUIDv7 (RFC 9562): ids that are made later sort later, by the millisecond. */
export function newId(): string {
  if (used === pool.length) {
    getRandomValues(pool)
    used = 0
  }
  used += LENGTH
  return v7({ random: pool.subarray(used - LENGTH, used) })
}
