import { parseDuration } from '../util/duration.ts'
import { UsageError } from './usage-error.ts'

const DATE = /^\d{4}-\d{2}-\d{2}$/
const DATE_TIME = /^(\d{4}-\d{2}-\d{2})[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|z|[+-]\d{2}:?\d{2})$/

/**
 * Returns when a token expires. `text` is the value of `--expires`: a duration such as `90d`, a date (the token expires at
 * 00:00 UTC), or a date-time with `Z` or an offset.
 *
 * @param now milliseconds since the epoch
 * @returns milliseconds since the epoch
 * @throws UsageError for anything else, and for a moment that has passed
 */
export function parseExpiry(text: string, now: number): number {
  const moment = parseMoment(text, now)
  if (!Number.isSafeInteger(moment)) {
    throw new UsageError(
      `--expires: "${text}" is not a time (expected a duration such as 90d, a date, or a date-time with Z or an offset)`,
    )
  }
  if (moment <= now)
    throw new UsageError(`--expires: "${text}" is in the past (expected a time in the future)`)
  return moment
}

/** Returns the milliseconds of an option's value such as `365d`. @throws UsageError for anything else, naming the `option` */
export function durationOption(text: string, option: string): number {
  const duration = parseDuration(text)
  if (!duration) throw new UsageError(`${option}: "${text}" is not a duration (expected for example 365d)`)
  return duration
}

function parseMoment(text: string, now: number): number {
  const duration = parseDuration(text)
  if (!Number.isNaN(duration)) return now + duration
  const day = DATE.test(text) ? text : DATE_TIME.exec(text)?.[1]
  // Date.parse reads the 31st of February as the 2nd or 3rd of March.
  if (!day || !new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day)) return Number.NaN
  return Date.parse(text === day ? `${day}T00:00:00Z` : text)
}
