import { v7 } from 'uuid'
import { randomPool } from '../util/random-pool.ts'

const randomBytes = randomPool(16)

/** Returns a new UUIDv7 (RFC 9562). Ids sort by the millisecond in which they were created. */
export function newId(): string {
  return v7({ random: randomBytes() })
}
