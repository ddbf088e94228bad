import { randomUUID } from 'node:crypto'

/** Returns a new UUIDv7 (RFC 9562). Ids sort by the millisecond in which they were created. */
export function newId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  // A UUIDv4 has random bits where a UUIDv7 has the time, and another version.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
