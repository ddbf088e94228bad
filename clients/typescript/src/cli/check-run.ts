import { createHash } from 'node:crypto'
import { uptime } from 'node:os'
import { operations } from '../generated/operations.ts'
import type { Result, StatusReport } from '../index.ts'
import type { Fetch } from '../transport.ts'
import { exitCodeOf, exitCodes } from './exit-codes.ts'
import { say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

/** Tells the runs of a check apart, so that a late report of an older one changes nothing. */
export interface CheckRun {
  /** Returns a report that says which run it is from, and at each attempt how long ago that began. */
  of(report: StatusReport): StatusReport
  /** Sends a request, and takes the time of the service from its answer. */
  fetch: Fetch
  /**
   * Sends a question if the time of the service is needed and no answer has told it yet. Returns why
   * it is still unknown: then no report can be sent.
   */
  measure(ask: () => Promise<Result<number, unknown>>): Promise<Unmeasured | undefined>
}

interface Unmeasured {
  reason: string
  exitCode: number
}

export const checkRunOptions = { run: { type: 'string' }, began: { type: 'string' } } as const

const LONGEST_ID = operations.reportStatus.maxLength.run
/** Longest time that a report may name, in milliseconds: 30 days. */
const LONGEST = 30 * 86_400_000
const RFC_3339 =
  /^(\d{4})-(0[1-9]|1[0-2])-(\d\d)[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/
/** Later ones, in seconds, are milliseconds: 100 thousand million seconds are the year 5138. */
const LAST_SECOND = 1e11

/**
 * Creates a run of a check. The clock of the machine decides nothing, since it may be minutes off,
 * and corrected while the run goes on: time is measured since the machine started, and `began` is
 * compared with the time of the service.
 *
 * @param began time of the CI system in milliseconds since the epoch; now if there is none
 */
export function createCheckRun(id: string, began?: number): CheckRun {
  /** When it began, by `sinceStart`. */
  let start = began === undefined ? sinceStart() : undefined

  function readTime(headers: Headers): void {
    const time = timeOf(headers)
    if (began === undefined || start !== undefined || time === undefined) return
    start = sinceStart() - (time - began)
    if (time < began) {
      const ahead = Math.ceil((began - time) / 1_000)
      say(`--began is ${ahead} s ahead of the time of the service: the run counts as beginning now`)
    }
  }

  return {
    of: (report) => ({
      ...report,
      run: id,
      get elapsed() {
        return Math.round(Math.min(Math.max(sinceStart() - (start ?? sinceStart()), 0), LONGEST))
      },
    }),
    async fetch(request) {
      const response = await fetch(request)
      readTime(response.headers)
      return response
    },
    async measure(ask) {
      if (start !== undefined) return undefined
      const answer = await ask()
      if (start !== undefined) return undefined
      if (answer.status === 0) return { reason: errorOf(answer.body), exitCode: exitCodeOf(answer) }
      const reason = 'the answer does not tell the time of the service, with which --began is compared'
      return { reason, exitCode: exitCodes.unanswered }
    },
  }
}

/**
 * Returns the run that `--run` and `--began` name; undefined if they name none. Empty values are
 * variables that the CI system does not have.
 *
 * @throws UsageError for a malformed id or time, and for a time without a run
 */
export function namedRun(
  { run, began }: { run?: string | undefined; began?: string | undefined },
  env: NodeJS.ProcessEnv,
): CheckRun | undefined {
  if (run === undefined && began)
    throw new UsageError('--began needs --run, which names the run that began then')
  if (run === '') say('--run is empty, so it was left out')
  if (began === '') say('--began is empty, so it was left out')
  if (!run) return undefined
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
  if (/[\0-\x1f]/.test(run)) throw new UsageError('--run must not contain tabs, newlines or other controls')
  return createCheckRun(shortened(withAttempt(run, env)), began ? parseTime(began) : undefined)
}

/**
 * GitHub Actions, Forgejo and Gitea keep the id of a run that is run again, and count its attempts.
 * Without that number `pending` of the second attempt would look like one of the first that is late.
 */
function withAttempt(run: string, { GITHUB_RUN_ID, GITHUB_RUN_ATTEMPT }: NodeJS.ProcessEnv): string {
  return run === GITHUB_RUN_ID && GITHUB_RUN_ATTEMPT ? `${run}-${GITHUB_RUN_ATTEMPT}` : run
}

/** Returns an id that is too long as its SHA-256, as the shell client does. */
function shortened(id: string): string {
  return Buffer.byteLength(id) > LONGEST_ID ? createHash('sha256').update(id).digest('hex') : id
}

/** Milliseconds since the machine started, also while it slept, by a clock that nobody sets. */
function sinceStart(): number {
  return uptime() * 1_000
}

/**
 * Returns the time of the service in milliseconds since the epoch. An answer without `X-Request-Id`
 * is that of something else, and one with `Age` was made some time ago.
 */
function timeOf(headers: Headers): number | undefined {
  if (!headers.has('x-request-id') || headers.has('age')) return undefined
  const time = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(time) ? undefined : time
}

function errorOf(body: unknown): string {
  return typeof body === 'object' && body !== null && 'error' in body ? String(body.error) : 'no answer'
}

/** @throws UsageError unless it is a time that exists */
function parseTime(text: string): number {
  const seconds = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN
  if (seconds < LAST_SECOND) return seconds * 1_000
  const [, year, month, day] = RFC_3339.exec(text) ?? []
  const lastDay = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > 0 && Number(day) <= lastDay) return Date.parse(text.toUpperCase().replace(' ', 'T'))
  throw new UsageError(`--began must be in seconds since 1970, or like 2026-01-31T12:00:00Z; got "${text}"`)
}
