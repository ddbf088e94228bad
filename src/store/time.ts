import { randomUUID } from 'node:crypto'
import { boundedMemoize } from '../util/memoize.ts'

/**
 * Returns the whole seconds since the epoch, rounded down, so that a recorded time is never in the
 * future.
 */
export function nowInSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** Formats a time as `YYYY-MM-DDThh:mm:ssZ`. @param seconds since the epoch */
export const formatTime = boundedMemoize(
  1_000,
  (seconds: number): string => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`,
)

/**
 * Formats a time as `YYYY-MM-DDThh:mm:ss.sssZ`; null if there is none.
 *
 * @param milliseconds since the epoch
 */
export function formatMilliseconds(milliseconds: number | null): string | null {
  return milliseconds === null ? null : new Date(milliseconds).toISOString()
}

/** Returns a new UUIDv7 (RFC 9562). Ids sort by the millisecond in which they were created. */
export function newId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  // A UUIDv4 has random bits where a UUIDv7 has the time, and another version.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
