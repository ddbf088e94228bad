import { boundedMemoize } from '../util/bounded-memoize.ts'

/** Seconds since the epoch, cut, not rounded: a moment is never later than it was. */
export function nowInSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** `YYYY-MM-DDThh:mm:ssZ` (contract, part 2). @param seconds since the epoch */
export const formatTime = boundedMemoize(
  1_000,
  (seconds: number): string => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`,
)
