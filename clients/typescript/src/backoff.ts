const FIRST = 500
const LARGEST = 8_000

/** Milliseconds to wait after the try of that index: anything up to a bound that doubles, 8 s at most (full jitter). */
export function backoff(index: number): number {
  return Math.random() * Math.min(LARGEST, FIRST * 2 ** index)
}

/** `Retry-After` in seconds (RFC 9110, section 10.2.3), be it a number or a date; null when there is none. */
export function retryAfter(headers: Headers): number | null {
  const value = headers.get('retry-after')?.trim()
  if (!value) return null
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1_000
  return Number.isNaN(seconds) ? null : Math.max(0, Math.ceil(seconds))
}
