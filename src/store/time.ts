import { randomUUID } from 'node:crypto'
import { boundedMemoize } from '../util/memoize.ts'

/**
 * Lengths of time, and times since the epoch. A plain number is either of them, so the compiler only
 * refuses one where the other is expected.
 */
export type Seconds = number & { readonly unit?: 'seconds' | undefined }
export type Milliseconds = number & { readonly unit?: 'milliseconds' | undefined }

export function inMilliseconds(seconds: Seconds): Milliseconds {
  return seconds * 1000
}

/**
 * Returns the whole seconds since the epoch, rounded down, so that a recorded time is never in the
 * future.
 */
export function nowInSeconds(): Seconds {
  return Math.floor(Date.now() / 1000)
}

/** Formats a time as `YYYY-MM-DDThh:mm:ssZ`. @param seconds since the epoch */
export const formatTime = boundedMemoize(
  1_000,
  (seconds: Seconds): string => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`,
)

/**
 * Formats a time as `YYYY-MM-DDThh:mm:ss.sssZ`; null if there is none.
 *
 * @param milliseconds since the epoch
 */
export function formatMilliseconds(milliseconds: Milliseconds | null): string | null {
  return milliseconds === null ? null : new Date(milliseconds).toISOString()
}

/** Returns a new UUIDv7 (RFC 9562). Ids sort by the millisecond in which they were created. */
export function newId(): string {
  // A UUIDv4 has random bits where a UUIDv7 has the time, and another version.
  return `${timeOfId(Date.now())}-7${randomUUID().slice(15)}`
}

/** Returns whether a text may be an id of `newId`: PostgreSQL refuses to compare some others with one. */
export function isId(text: string): boolean {
  return /^[0-9a-f-]{36}$/.test(text)
}

/** Many reports are stored in the same millisecond. */
const timeOfId = boundedMemoize(1, (time: Milliseconds): string => {
  const digits = time.toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}`
})
