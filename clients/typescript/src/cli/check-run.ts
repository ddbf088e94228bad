import { createHash } from 'node:crypto'
import { operations } from '../generated/operations.ts'
import type { StatusReport } from '../index.ts'
import { UsageError } from './usage-error.ts'

/** Tells the runs of a check apart, so that a late report of an older one changes nothing. */
export interface CheckRun {
  id: string
  /** When it began, in milliseconds since the epoch. */
  began: number
}

export const checkRunOptions = { run: { type: 'string' }, began: { type: 'string' } } as const

const LONGEST_ID = operations.reportStatus.maxLength.run
/** Longest time that a report may name, in milliseconds: 30 days. */
const LONGEST = 30 * 86_400_000
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/
/** Later ones, in seconds, are milliseconds: 100 thousand million seconds are the year 5138. */
const LAST_SECOND = 1e11

/**
 * Returns the run that `--run` and `--began` name, which began now unless they say when; undefined
 * if they name none. Empty values are variables that the CI system does not have.
 *
 * @throws UsageError for a time that is none, and for a time without a run
 */
export function namedRun(values: {
  run?: string | undefined
  began?: string | undefined
}): CheckRun | undefined {
  const { run, began } = values
  if (run === undefined && began)
    throw new UsageError('--began needs --run, which names the run that began then')
  return run ? { id: shortened(run), began: began ? parseTime(began) : Date.now() } : undefined
}

/**
 * Returns a report that says which run it is from. How long ago the run began is computed whenever
 * the report is sent, by the clock of the machine, which goes on while the machine sleeps.
 */
export function withRun(report: StatusReport, { id, began }: CheckRun): StatusReport {
  return {
    ...report,
    run: id,
    get elapsed() {
      return Math.round(Math.min(Math.max(Date.now() - began, 0), LONGEST))
    },
  }
}

/** Returns an id that is too long as its SHA-256, as the shell client does. */
function shortened(id: string): string {
  return Buffer.byteLength(id) > LONGEST_ID ? createHash('sha256').update(id).digest('hex') : id
}

function parseTime(text: string): number {
  const seconds = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN
  if (seconds < LAST_SECOND) return seconds * 1_000
  const time = RFC_3339.test(text) ? Date.parse(text.toUpperCase().replace(' ', 'T')) : Number.NaN
  if (!Number.isNaN(time)) return time
  throw new UsageError(`--began must be in seconds since 1970, or like 2026-01-31T12:00:00Z; got "${text}"`)
}
