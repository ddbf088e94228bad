import { v7 } from 'uuid'
import { randomPool } from '../util/random-pool.ts'

const randomBytes = randomPool(16)

/** A new UUIDv7 (RFC 9562): ids that are made later sort later, by the millisecond. */
export function newId(): string {
  return v7({ random: randomBytes() })
}
