import { LONGEST_TIMER } from '../sleep.ts'
import { UsageError } from './usage-error.ts'

const DAY = 86_400_000
const UNITS = new Map([
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', DAY],
])

/**
 * Returns the milliseconds of `90s`, `10m`, `1h` or `7d`.
 *
 * @param name of the option or variable, for the message
 * @param longest in milliseconds; that of a timer by default
 * @throws UsageError for anything else
 */
export function parseDuration(text: string, name: string, longest = LONGEST_TIMER): number {
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)([smhd])$/.exec(text) ?? []
  const factor = UNITS.get(unit)
  const milliseconds = Number(amount) * (factor ?? Number.NaN)
  if (Number.isNaN(milliseconds) || milliseconds > longest) {
    throw new UsageError(
      `${name}: "${text}" is not a duration of at most ${Math.floor(longest / DAY)} days (expected for example 90s, 10m or 1h)`,
    )
  }
  return milliseconds
}

/** Formats a duration for people: `0.4 s`, `59 s`, `2 min 5 s`, `1 h 3 min`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 9_950) return `${(milliseconds / 1_000).toFixed(1)} s`
  const seconds = Math.round(milliseconds / 1_000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`
}
