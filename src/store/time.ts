import { boundedMemoize } from '../util/memoize.ts'

/** Returns the whole seconds since the epoch, rounded down, so that a recorded time is never in the future. */
export function nowInSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** Formats a time as `YYYY-MM-DDThh:mm:ssZ`. @param seconds since the epoch */
export const formatTime = boundedMemoize(
  1_000,
  (seconds: number): string => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`,
)
