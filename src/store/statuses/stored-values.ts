import { refusesClaim } from './claims.ts'
import {
  type ComputedColumn,
  computedColumns,
  type GivenColumn,
  hasColumn,
  isGiven,
  isLeft,
  latestColumns,
  type ReportKind,
  replacedColumns,
  type StoredColumn,
  storedColumns,
} from './columns.ts'
import { type RunSql, refusesReport, runBeginning, runPendingTime, runReport } from './runs.ts'

/*
 * What the statements that store a report write, in SQL: the values of a new context, and of one that
 * is reported again. They are the same for both databases, which differ in how a statement reads the
 * report.
 */

/** Returns the SQL of a column of the report. */
export type ReportedSql = (name: GivenColumn | 'run_began_at' | 'claimed_at') => string

/** A column, and the SQL of what is stored in it. */
type StoredValue = readonly [column: StoredColumn, value: string]

/** Returns what is stored of a new context. */
export function insertions(reported: ReportedSql, kind: ReportKind): StoredValue[] {
  const computed: Record<ComputedColumn, string> = {
    pending_at: pendingTime(reported),
    run_began_at: reported('run_began_at'),
    ...reportsOfRun(reported, reported('updated_at')),
  }
  return storedColumns
    .filter((name) => hasColumn(kind, name))
    .map((name) => [name, isGiven(name) ? reported(name) : computed[name]])
}

/** What becomes of the columns of a status that is reported again. */
interface Replacements {
  /** Of a report that is stored. */
  values: StoredValue[]
  /** The condition that all stay as they are; undefined if there is none. */
  isRefused: string | undefined
}

/** Returns what becomes of these columns. A report that names no run is never refused, and leaves no run stored. */
export function replacements(reported: ReportedSql, dialect: RunSql, kind: ReportKind): Replacements {
  const computed = computedAgain(reported, dialect, kind)
  const values: StoredValue[] = [
    ...replacedColumns.map((name) => [name, reported(name)] as const),
    ...latestColumns.map((name) => [name, latestTime(reported, dialect)] as const),
    ...computedColumns.map((name) => [name, computed[name]] as const),
  ]
  return {
    values: values
      .filter(([name]) => !isLeft(kind, name))
      .map(([name, value]) => [name, hasColumn(kind, name) ? value : 'null']),
    isRefused: refusal(reported, dialect, kind),
  }
}

/** Returns the value of a column, which stays as it is on a condition. */
export function unlessRefused(isRefused: string | undefined, [name, value]: StoredValue): string {
  return isRefused === undefined ? value : `case when ${isRefused} then statuses.${name} else ${value} end`
}

/**
 * A `pending` counts for one result: what is reported after that without another `pending` has an
 * unknown start.
 */
function computedAgain(
  reported: ReportedSql,
  dialect: RunSql,
  kind: ReportKind,
): Record<ComputedColumn, string> {
  const pendingAt = kind === 'plain' ? pendingTime(reported) : runPendingTime(reported)
  return {
    pending_at: `coalesce(${pendingAt}, case when statuses.state = 'pending' then statuses.pending_at end)`,
    run_began_at: runBeginning(reported, dialect),
    ...reportsOfRun(reported, latestTime(reported, dialect)),
  }
}

/** Returns what a run has reported and claimed. */
function reportsOfRun(reported: ReportedSql, updatedAt: string) {
  const report = runReport(reported, updatedAt)
  return {
    run_report: report,
    claim_run: reported('run'),
    claimed_at: reported('claimed_at'),
    claim_report: report,
  }
}

function pendingTime(reported: ReportedSql): string {
  return `case when ${reported('state')} = 'pending' then ${reported('updated_at')} end`
}

function latestTime(reported: ReportedSql, { greatest }: RunSql): string {
  return `${greatest}(${reported('updated_at')}, statuses.updated_at)`
}

function refusal(reported: ReportedSql, dialect: RunSql, kind: ReportKind): string | undefined {
  if (kind === 'plain') return undefined
  return kind === 'run' ? refusesReport(reported, dialect) : refusesClaim(reported, dialect)
}
