import type { components } from '../../../generated/schema.ts'
import { type ClaimAnswer, refusesClaim } from './claims.ts'
import { type RunSql, type RunState, refusesReport, runBeginning, runPendingTime, runReport } from './runs.ts'

/**
 * What becomes of a column when its context is reported again. `latest`: a time that never goes
 * back. `computed`: it follows from other columns and from what is stored.
 */
type OnReplace = 'key' | 'kept' | 'replaced' | 'latest' | 'computed'

interface Column {
  type: 'text' | 'integer'
  onReplace: OnReplace
  /** Whether a report has a field of this name. */
  isReported: boolean
  /** Whether an answer has a field of this name. */
  isAnswered: boolean
}

const key = { onReplace: 'key', isReported: false } as const
const reportedText = { type: 'text', isReported: true, isAnswered: true } as const
const time = { type: 'integer', isReported: false, isAnswered: true } as const
const computed = { onReplace: 'computed', isReported: false, isAnswered: false } as const

/**
 * What a report stores. The statements that write and read statuses, the rows and the answers
 * follow from this table.
 */
const columns = {
  repository_id: { ...key, type: 'integer', isAnswered: false },
  sha: { ...key, type: 'text', isAnswered: true },
  context: { ...reportedText, onReplace: 'key' },
  id: { type: 'text', onReplace: 'kept', isReported: false, isAnswered: true },
  state: { ...reportedText, onReplace: 'replaced' },
  description: { ...reportedText, onReplace: 'replaced' },
  target_url: { ...reportedText, onReplace: 'replaced' },
  created_at: { ...time, onReplace: 'kept' },
  updated_at: { ...time, onReplace: 'latest' },
  /** Who sent the latest report. */
  reporter_id: { type: 'integer', onReplace: 'replaced', isReported: false, isAnswered: false },
  /** Time of the last `pending`, if the latest report is it or the one after it; else null. */
  pending_at: { ...computed, type: 'integer' },
  /** The run that sent the latest report; null if it named none. See `runs.ts`. */
  run: { type: 'text', onReplace: 'replaced', isReported: false, isAnswered: false },
  /** When that run began, in milliseconds since the epoch: the earliest beginning that it gave. */
  run_began_at: { ...computed, type: 'integer' },
  /** What that run has reported, by which a replacement that does not know runs is found. */
  run_report: { ...computed, type: 'text' },
  /** Seconds of the last report with a claim, as the three that follow. See `claims.ts`. */
  claim_seconds: { type: 'integer', onReplace: 'replaced', isReported: false, isAnswered: false },
  claim_run: { ...computed, type: 'text' },
  /** When it was stored, in milliseconds since the epoch, by the database's clock. */
  claimed_at: { ...computed, type: 'integer' },
  /** As `run_report`. */
  claim_report: { ...computed, type: 'text' },
} as const satisfies Record<string, Column>

type Columns = typeof columns
export type StoredColumn = keyof Columns
export type GivenColumn = Exclude<StoredColumn, NamesWith<{ onReplace: 'computed' }>>
type NamesWith<Part extends Partial<Column>> = {
  [Name in StoredColumn]: Columns[Name] extends Part ? Name : never
}[StoredColumn]
type AnsweredColumn = NamesWith<{ isAnswered: true }>
type ReportedColumn = NamesWith<{ isReported: true }>
type TimeColumn = NamesWith<typeof time>
type ComputedColumn = NamesWith<{ onReplace: 'computed' }>

function namesWith<Part extends Partial<Column>>(part: Part): NamesWith<Part>[] {
  const names = Object.keys(columns) as StoredColumn[]
  const isPart = (name: StoredColumn) => {
    const column: Column = columns[name]
    return Object.entries(part).every(([field, value]) => column[field as keyof Column] === value)
  }
  // The test of the values is the condition of the type.
  return names.filter(isPart) as NamesWith<Part>[]
}

const isGiven = (name: StoredColumn): name is GivenColumn => columns[name].onReplace !== 'computed'

const storedColumns = namesWith({})
/** What the statement that stores a report is given. */
export const givenColumns = storedColumns.filter(isGiven)
export const answeredColumns = namesWith({ isAnswered: true })
const reportedColumns = namesWith({ isReported: true })
export const replacedColumns = namesWith({ onReplace: 'replaced' })
/** What the database decides. All other columns equal the report. */
export const decidedColumns = [...namesWith({ onReplace: 'kept' }), ...namesWith({ onReplace: 'latest' })]
/** The same of a report of a run, whose report the row holds, and when it was last claimed. */
export const decidedOfRun = [...decidedColumns, 'run', 'state', 'claimed_at'] as const

/** What a report says of its run, each of which has statements of its own: those for less cost less. */
export type ReportKind = 'plain' | 'run' | 'claim'
/** Columns that are null without a run. */
const runColumns: ReadonlySet<StoredColumn> = new Set(['run', 'run_began_at', 'run_report'])
/** Columns that stay as they are without a claim. */
const claimColumns: ReadonlySet<StoredColumn> = new Set([
  'claim_seconds',
  'claim_run',
  'claimed_at',
  'claim_report',
])
/** Returns whether a report of a kind has a value of a column. */
export const hasColumn = (kind: ReportKind, name: StoredColumn) =>
  kind === 'claim' || !(claimColumns.has(name) || (kind === 'plain' && runColumns.has(name)))

type Status = components['schemas']['Status']
/** A status as stored; times in seconds since the epoch. */
export type StatusRow = {
  [Name in AnsweredColumn]: Name extends TimeColumn ? number : Status[Name]
}
type StoredFields = Pick<StatusRow, ReportedColumn>
/** What the statement that stores a report is given, and what it returns. */
export type GivenFields = StatusRow & {
  repository_id: number
  reporter_id: number | null
  run: string | null
  /** Milliseconds since the run began; null without a run. */
  elapsed: number | null
  /** null without a claim. */
  claim_seconds: number | null
  /** Milliseconds that are left to store it when this is read; null: no limit. */
  readonly time_left: number | null
}
export type DecidedOfRun = Pick<GivenFields, (typeof decidedColumns)[number]> & RunState & ClaimAnswer
export type DecidedFields = Pick<GivenFields, (typeof decidedColumns)[number]> &
  Partial<RunState & ClaimAnswer>
/** What a report says. A field that may be null may also be missing. */
export type ReportedFields = Partial<StoredFields> & Pick<StoredFields, 'context' | 'state'>

/** Returns what is stored of a report: null where it says nothing. */
export function fieldsOf(report: ReportedFields): StoredFields {
  const fields: Partial<Record<ReportedColumn, string | number | null>> = {}
  for (const name of reportedColumns) fields[name] = report[name] ?? null
  // The type of the report requires what cannot be null.
  return fields as StoredFields
}

/** Returns the SQL of a column of the report. */
export type Reported = (name: GivenColumn | 'run_began_at' | 'claimed_at') => string
export type StoredValues = (readonly [column: StoredColumn, value: string])[]

const pendingTime = (reported: Reported) =>
  `case when ${reported('state')} = 'pending' then ${reported('updated_at')} end`

/** Returns what is stored of a new context, in SQL. */
export function insertions(reported: Reported, kind: ReportKind): StoredValues {
  const computed: Record<ComputedColumn, string> = {
    pending_at: pendingTime(reported),
    run_began_at: reported('run_began_at'),
    run_report: runReport(reported, reported('updated_at')),
    ...claimValues(reported, reported('updated_at')),
  }
  return storedColumns
    .filter((name) => hasColumn(kind, name))
    .map((name) => [name, isGiven(name) ? reported(name) : computed[name]])
}

const claimValues = (reported: Reported, updatedAt: string) => ({
  claim_run: reported('run'),
  claimed_at: reported('claimed_at'),
  claim_report: runReport(reported, updatedAt),
})

/**
 * Returns what becomes of the columns of a status that is reported again, in SQL. A `pending` counts
 * for one result: what is reported after that without another `pending` has an unknown start.
 */
function replaced(reported: Reported, dialect: RunSql, kind: ReportKind): StoredValues {
  const { greatest } = dialect
  const updatedAt = `${greatest}(${reported('updated_at')}, statuses.updated_at)`
  const pendingAt = kind === 'plain' ? pendingTime(reported) : runPendingTime(reported)
  const computed: Record<ComputedColumn, string> = {
    pending_at: `coalesce(${pendingAt}, case when statuses.state = 'pending' then statuses.pending_at end)`,
    run_began_at: runBeginning(reported, dialect),
    run_report: runReport(reported, updatedAt),
    ...claimValues(reported, updatedAt),
  }
  return [
    ...replacedColumns.map((name) => [name, reported(name)] as const),
    ...namesWith({ onReplace: 'latest' }).map((name) => [name, updatedAt] as const),
    ...namesWith({ onReplace: 'computed' }).map((name) => [name, computed[name]] as const),
  ]
}

/** What becomes of the columns of a status that is reported again, in SQL. */
interface Replacements {
  /** Of a report that is stored. */
  values: StoredValues
  /** The condition that all stay as they are; undefined if there is none. */
  isRefused: string | undefined
}

/** Returns what becomes of these columns. A report that names no run is never refused, and leaves no run stored. */
export function replacements(reported: Reported, dialect: RunSql, kind: ReportKind): Replacements {
  const values = replaced(reported, dialect, kind)
  if (kind === 'plain')
    return {
      values: values
        .filter(([name]) => !claimColumns.has(name))
        .map(([name, value]) => [name, runColumns.has(name) ? 'null' : value]),
      isRefused: undefined,
    }
  return {
    values: values.filter(([name]) => hasColumn(kind, name)),
    isRefused: (kind === 'claim' ? refusesClaim : refusesReport)(reported, dialect),
  }
}

/** Returns the value of a column, which stays as it is on a condition, in SQL. */
export function unlessRefused(isRefused: string | undefined, [name, value]: StoredValues[number]): string {
  return isRefused === undefined ? value : `case when ${isRefused} then statuses.${name} else ${value} end`
}

/** Returns the type of a column in PostgreSQL's functions. */
export function typeOf(name: StoredColumn): 'bigint' | 'text' {
  return columns[name].type === 'integer' ? 'bigint' : 'text'
}
