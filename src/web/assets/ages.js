const UNITS = [
  ['year', 365 * 86_400],
  ['month', 30 * 86_400],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
]

/** Seconds by which the clock of another machine may be ahead. */
const CLOCK_SKEW = 300

/** Returns a duration in its largest unit, rounded down: `3 hours`. Negative ones count as none. */
export function durationInWords(seconds) {
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? ['second', 1]
  const count = Math.max(Math.floor(seconds / length), 0)
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}

/** Returns for how long something has lasted. */
export function timeInWords(seconds) {
  return seconds < 60 ? 'less than a minute' : durationInWords(seconds)
}

/** Returns how long ago something happened; null for a time that is to come, which a commit can have. */
export function ageInWords(seconds) {
  if (seconds < -CLOCK_SKEW) return null
  return seconds < 60 ? 'just now' : `${durationInWords(seconds)} ago`
}

/** Returns a time to the second. @param iso ISO 8601, UTC */
export function exactTime(iso) {
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`
}
