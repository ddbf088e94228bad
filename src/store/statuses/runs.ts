import type { StatusState } from '../../domain/states.ts'

/*
 * Which report of a run replaces the stored one, as the contract says of `reportStatus`:
 *
 *   stored             reported             becomes
 *   ─────────────────  ───────────────────  ────────────────────────────────────────────────────────
 *   no run             anything             stored
 *   anything           no run               stored; the status has no run then
 *   run R, pending     by R                 stored; R began at the earliest time that it gave
 *   run R, a result    a result by R        the same
 *   run R, a result    pending by R         refused: `report_late`
 *   run R              by another run       stored if that run began after R, or less than
 *                                           TOLERANCE before it; else refused: `run_superseded`
 *
 * The statement that stores a report decides this too, so that no other report comes in between.
 * A refused report writes the row as it is, and the statement returns its run and state, which then
 * differ from those of the report. Without a row, the commit has too many contexts.
 *
 * A stored run counts only while `run_report` is what the row says, as servers of version 0.4.0, which
 * may run beside this one, compare too: version 0.3.0 left runs as they were when it replaced a status.
 */

/** The run and the state of a report, or of a stored status. */
export interface RunState {
  run: string | null
  state: StatusState
}

/** What the dialects write differently here. */
export interface RunSql {
  /** The larger and the smaller of two numbers. */
  greatest: 'max' | 'greatest'
  least: 'min' | 'least'
  /**
   * Milliseconds since the epoch, by the database's clock at the moment of its evaluation, which
   * may come after a wait for a lock.
   */
  clock: string
}

/** Returns the SQL of what a report says of its run. */
export type ReportedRun = (name: 'run' | 'run_began_at' | 'state') => string

/**
 * Milliseconds by which a run may have begun before the stored one and still replace it, because
 * reports take different times to arrive.
 */
export const TOLERANCE = 5_000

/**
 * Returns what identifies a report of a run in its row, in SQL; null without a run. SQLite is given
 * numbers with a fraction, which it stores without.
 */
export function runReport(reported: ReportedRun, updatedAt: string): string {
  return `case when ${reported('run')} is not null then cast(${updatedAt} as bigint) || ${reported('state')} end`
}

/** Returns when the run of a report began, in SQL; null without a run. */
export function runBeginning(reported: ReportedRun, { least }: RunSql): string {
  const began = reported('run_began_at')
  return `case when statuses.run = ${reported('run')} then ${least}(${began}, statuses.run_began_at) else ${began} end`
}

/**
 * Returns when a report of a run that is `pending` was first reported so, in SQL; null unless it is: a
 * `pending` after a `pending` of the same run keeps the time of the first one.
 */
export function runPendingTime(reported: (name: 'run' | 'state' | 'updated_at') => string): string {
  return `case when ${reported('state')} = 'pending' then coalesce(
    case when statuses.run = ${reported('run')} and statuses.state = 'pending' then statuses.pending_at end,
    ${reported('updated_at')}) end`
}

/** The condition that the stored run is that of the stored report, in SQL. */
export const IS_RUN_STORED = 'statuses.run_report = statuses.updated_at || statuses.state'

/** Returns the condition that a report is the `pending` of a run whose result is stored, in SQL. */
export function isLate(reported: ReportedRun): string {
  return `${reported('state')} = 'pending' and statuses.state <> 'pending' and ${IS_RUN_STORED}`
}

/**
 * Returns the condition that a run began too long before the stored one, in SQL. No run began later
 * than now: if one did, the clock was set back since.
 */
export function isSuperseded(
  reported: ReportedRun,
  { least, clock }: Pick<RunSql, 'least' | 'clock'>,
): string {
  return `${reported('run_began_at')} < ${least}(statuses.run_began_at, ${clock}) - ${TOLERANCE} and ${IS_RUN_STORED}`
}

/** Returns the condition that a report of a run changes nothing, in SQL. */
export function refusesReport(reported: ReportedRun, dialect: RunSql): string {
  return `case when statuses.run = ${reported('run')} then ${isLate(reported)} else ${isSuperseded(reported, dialect)} end`
}
