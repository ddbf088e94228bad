import { UsageError } from './usage-error.ts'

const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const DATE = /^\d{4}-\d{2}-\d{2}$/
const DATE_TIME = /^(\d{4}-\d{2}-\d{2})[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|z|[+-]\d{2}:?\d{2})$/

/**
 * When a token expires: a duration such as `90d`, a date (from 00:00 UTC of that day on), or a date-time with `Z` or an
 * offset.
 *
 * @param now milliseconds since the epoch
 * @returns milliseconds since the epoch
 * @throws UsageError for anything else, and for a moment that has passed
 */
export function parseExpiry(text: string, now: number): number {
  const moment = parseMoment(text, now)
  if (!Number.isSafeInteger(moment)) {
    throw new UsageError(
      `"${text}" is neither a duration such as 90d, nor a date, nor a date-time with Z or an offset`,
    )
  }
  if (moment <= now) throw new UsageError(`"${text}" is in the past`)
  return moment
}

/** A duration such as `365d`, in milliseconds. @throws UsageError for anything else */
export function parseDuration(text: string): number {
  const duration = durationOf(text)
  if (!duration) throw new UsageError(`"${text}" is no duration such as 365d`)
  return duration
}

/** Milliseconds; NaN when the text is none. */
function durationOf(text: string): number {
  const [, amount, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? []
  return Number(amount) * (UNITS[unit] ?? Number.NaN)
}

function parseMoment(text: string, now: number): number {
  const duration = durationOf(text)
  if (!Number.isNaN(duration)) return now + duration
  const day = DATE.test(text) ? text : DATE_TIME.exec(text)?.[1]
  // Date.parse takes the 31st of February for the 2nd or 3rd of March.
  if (!day || !new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day)) return Number.NaN
  return Date.parse(text === day ? `${day}T00:00:00Z` : text)
}
