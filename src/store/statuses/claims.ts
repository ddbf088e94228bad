import { ServiceError, TryLater } from '../../errors.ts'
import { IS_RUN_STORED, isLate, isSuperseded, type ReportedRun, type RunSql, type RunState } from './runs.ts'

/*
 * Which report with a claim replaces the stored one, as the contract says of `reportStatus`:
 *
 *   stored                    claim                 becomes
 *   ────────────────────────  ────────────────────  ─────────────────────────────────────────────────
 *   by the same run           any                   as without a claim, see `runs.ts`
 *   pending by another run    pending               stored once the greater of both claims has passed
 *                                                   since the stored report, unless superseded
 *   pending without a run     pending               stored if its run began after the second of the
 *                                                   stored report, and was not the last to claim
 *   pending                   a result              refused
 *   a result                  any                   refused, unless it is by the same run
 *
 * A claim counts while the row is what the report with that claim has written: a report without one
 * removes `claim_report`, since it may be of the same second. Servers of version 0.4.0, which do not
 * know claims, leave their columns as they are. A `pending` without a claim counts as a claim of 0
 * seconds from the end of its second on.
 *
 * All columns of a row are decided by one reading of the clock. On PostgreSQL it is read before the
 * row is locked: a claim that has ended meanwhile may be refused, but none is taken too early.
 *
 * A stored time that is ahead of this clock was read before the clock was set back or, without a
 * claim, from the clock of a server that is ahead. It would block the check until the clock has
 * caught up, so one that is far ahead counts as passed.
 */

/** What is returned of the stored claim. */
export interface ClaimAnswer {
  /** When the last claim was stored, in milliseconds by the database's clock; null without one. */
  claimed_at: number | null
  /**
   * Milliseconds until the stored claim or, if that is longer, what a report with a claim asks for
   * has passed since the stored report; null without both, negative if it has passed.
   */
  claim_left: number | null
}

/** Returns the SQL of what a report says of its claim. */
type ReportedClaim = (name: Parameters<ReportedRun>[0] | 'claim_seconds' | 'claimed_at') => string

const IS_CLAIM_STORED = 'statuses.claim_report = statuses.updated_at || statuses.state'
/** The end of the second in which the stored status was reported, in milliseconds, in SQL. */
const END_OF_SECOND = '(statuses.updated_at + 1) * 1000'

/** When the stored `pending` was reported, in milliseconds, in SQL. */
const REPORTED_AT = `case when ${IS_CLAIM_STORED} then statuses.claimed_at else ${END_OF_SECOND} end`
/** Milliseconds by which clocks may differ. */
export const CLOCK_TOLERANCE = 5_000

/** Returns when another run may take over from the stored `pending`, in milliseconds, in SQL. */
function claimEnd(seconds: string, greatest: RunSql['greatest']): string {
  return `${REPORTED_AT} + ${greatest}(case when ${IS_CLAIM_STORED} then statuses.claim_seconds else 0 end, ${seconds}) * 1000`
}

/** Returns the condition that a report with a claim changes nothing, in SQL. */
export function refusesClaim(reported: ReportedClaim, { least, greatest }: RunSql): string {
  const clock = reported('claimed_at')
  const isPossible = (time: string) => `${time} <= ${clock} + ${CLOCK_TOLERANCE}`
  const isHeld = `${clock} < ${claimEnd(reported('claim_seconds'), greatest)} and ${isPossible(REPORTED_AT)}`
  const isFromBefore = `${reported('run_began_at')} < ${END_OF_SECOND} and ${isPossible(END_OF_SECOND)}`
  return `case
    when statuses.run = ${reported('run')} then ${isLate(reported)}
    when statuses.state <> 'pending' or ${reported('state')} <> 'pending' then true
    when statuses.run is not null and ${IS_RUN_STORED} then ${isHeld} or ${isSuperseded(reported, { least, clock })}
    else statuses.claim_run = ${reported('run')} or ${isFromBefore}
  end`
}

/**
 * Returns how many milliseconds another run must wait that claims a `pending`, in SQL.
 *
 * @param seconds what the report claims
 */
export function claimLeft({ greatest }: RunSql, clock: string, seconds: string): string {
  const end = claimEnd(seconds, greatest)
  return `case when statuses.state = 'pending' and statuses.run is not null then ${end} - ${clock} end`
}

/** Returns the error for a report of a run that changes nothing, by what its row says then; null if it is stored. */
export function refusalOf(
  report: RunState & { claim_seconds: number | null },
  row: Partial<RunState & ClaimAnswer>,
): ServiceError | null {
  if (report.run === null) return null
  if (report.run === row.run) return report.state === row.state ? null : new ServiceError('report_late')
  if (report.claim_seconds === null) return new ServiceError('run_superseded')
  if (row.state !== 'pending')
    return new ServiceError(
      'claim_refused',
      `This context has a result, "${row.state}". Nothing was changed.`,
    )
  const holder =
    row.run === null ? 'without a run: another run was asked for' : `by the run ${JSON.stringify(row.run)}`
  return new TryLater(
    'claim_refused',
    Math.max(1, Math.ceil((row.claim_left ?? 0) / 1000)),
    `This context is "pending", ${holder}. Nothing was changed.`,
  )
}
