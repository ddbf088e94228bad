const FIRST = 500
/** Largest pause between two attempts, in milliseconds. */
export const LONGEST_PAUSE = 8_000

/**
 * Returns a random pause after the attempt of that index, below a bound that doubles (full jitter),
 * in milliseconds.
 */
export function backoff(index: number): number {
  return Math.random() * Math.min(LONGEST_PAUSE, FIRST * 2 ** index)
}

/**
 * Returns `Retry-After` in seconds, given as a number or a date (RFC 9110, section 10.2.3); null
 * when there is none.
 */
export function retryAfter(headers: Headers): number | null {
  const value = headers.get('retry-after')?.trim()
  if (!value) return null
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1_000
  return Number.isNaN(seconds) ? null : Math.max(0, Math.ceil(seconds))
}
