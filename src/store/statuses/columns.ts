import type { components } from '../../../generated/schema.ts'
import type { ClaimAnswer } from './claims.ts'
import type { RunState } from './runs.ts'

/*
 * The columns of the table `statuses`, and the rows and fields that follow from them:
 *
 *   a report ── fieldsOf ──▶ what it says ── with its time, reporter, run and claim ──▶ GivenFields
 *                                                                                          │
 *   StatusRow ◀── read by what answers                     stored by a statement, see ◀────┘
 *                                                          `stored-values.ts`, which returns
 *                                                          what the database decided: DecidedFields
 */

interface Column {
  type: 'text' | 'integer'
  /**
   * What becomes of it when its context is reported again. `key`: it names the context, so it is the
   * same. `latest`: it is a time that never goes back. `computed`: it follows from other columns and
   * from what is stored.
   */
  onReplace: 'key' | 'kept' | 'replaced' | 'latest' | 'computed'
  /** Which reports have a value of it: all, those of a run, or those with a claim. */
  of?: 'run' | 'claim'
  /** Whether a report has a field of this name. */
  isReported: boolean
  /** Whether an answer has a field of this name. */
  isAnswered: boolean
}

const key = { onReplace: 'key', isReported: false } as const
const reportedText = { type: 'text', isReported: true, isAnswered: true } as const
const time = { type: 'integer', isReported: false, isAnswered: true } as const
const internal = { isReported: false, isAnswered: false } as const

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
  reporter_id: { ...internal, type: 'integer', onReplace: 'replaced' },
  /** Time of the last `pending`, if the latest report is it or the one after it; else null. */
  pending_at: { ...internal, type: 'integer', onReplace: 'computed' },
  /** The run that sent the latest report; null if it named none. See `runs.ts`. */
  run: { ...internal, type: 'text', onReplace: 'replaced', of: 'run' },
  /** When that run began, in milliseconds since the epoch: the earliest beginning that it gave. */
  run_began_at: { ...internal, type: 'integer', onReplace: 'computed', of: 'run' },
  /** What that run has reported, by which a replacement that does not know runs is found. */
  run_report: { ...internal, type: 'text', onReplace: 'computed', of: 'run' },
  /** Seconds of the last report with a claim, as the three that follow. See `claims.ts`. */
  claim_seconds: { ...internal, type: 'integer', onReplace: 'replaced', of: 'claim' },
  claim_run: { ...internal, type: 'text', onReplace: 'computed', of: 'claim' },
  /** When it was stored, in milliseconds since the epoch, by the database's clock. */
  claimed_at: { ...internal, type: 'integer', onReplace: 'computed', of: 'claim' },
  /** What the run has reported with it, as `run_report`; null once a report without a claim has followed. */
  claim_report: { ...internal, type: 'text', onReplace: 'computed', of: 'claim' },
} as const satisfies Record<string, Column>

type Columns = typeof columns
/** The names of the columns that have these properties. */
type NamesWith<Part extends Partial<Column>> = {
  [Name in StoredColumn]: Columns[Name] extends Part ? Name : never
}[StoredColumn]

export type StoredColumn = keyof Columns
/** A column whose value follows from others. */
export type ComputedColumn = NamesWith<{ onReplace: 'computed' }>
/** Any other one: its value is given to the statement that stores a report. */
export type GivenColumn = Exclude<StoredColumn, ComputedColumn>
type AnsweredColumn = NamesWith<{ isAnswered: true }>
type ReportedColumn = NamesWith<{ isReported: true }>
type TimeColumn = NamesWith<typeof time>

function namesWith<Part extends Partial<Column>>(part: Part): NamesWith<Part>[] {
  const hasPart = (name: StoredColumn) => {
    const column: Column = columns[name]
    return Object.entries(part).every(([property, value]) => column[property as keyof Column] === value)
  }
  // The comparison of the values is the condition of the type.
  return storedColumns.filter(hasPart) as NamesWith<Part>[]
}

// The names of a constant object are its keys.
export const storedColumns = Object.keys(columns) as StoredColumn[]
export const givenColumns = storedColumns.filter(isGiven)
export const answeredColumns = namesWith({ isAnswered: true })
const reportedColumns = namesWith({ isReported: true })
export const replacedColumns = namesWith({ onReplace: 'replaced' })
export const latestColumns = namesWith({ onReplace: 'latest' })
export const computedColumns = namesWith({ onReplace: 'computed' })
/** What the database decides. All other columns equal the report. */
export const decidedColumns = [...namesWith({ onReplace: 'kept' }), ...latestColumns]
/**
 * What a report of a run returns: also whose report the row holds now, which may be that of another run,
 * and when it was last claimed.
 */
export const decidedOfRun = [...decidedColumns, 'run', 'state', 'claimed_at'] as const

export function isGiven(name: StoredColumn): name is GivenColumn {
  return columns[name].onReplace !== 'computed'
}

/** Returns the type of a column in PostgreSQL's functions. */
export function typeOf(name: StoredColumn): 'bigint' | 'text' {
  return columns[name].type === 'integer' ? 'bigint' : 'text'
}

/**
 * What a report says of its run: nothing, its name, or that it claims the check too. Each kind has
 * statements of its own, since those for less cost less.
 */
export type ReportKind = 'plain' | 'run' | 'claim'

/** Returns whether a report of a kind has a value of a column. */
export function hasColumn(kind: ReportKind, name: StoredColumn): boolean {
  const { of }: Column = columns[name]
  return of === undefined || of === kind || kind === 'claim'
}

/**
 * Returns whether a column stays as it is when its context is reported again: without a claim, that
 * of the last one, which no longer counts.
 */
export function isLeft(kind: ReportKind, name: StoredColumn): boolean {
  const { of }: Column = columns[name]
  return of === 'claim' && kind !== 'claim' && name !== 'claim_report'
}

type Status = components['schemas']['Status']
/** A status as stored; times in seconds since the epoch. */
export type StatusRow = {
  [Name in AnsweredColumn]: Name extends TimeColumn ? number : Status[Name]
}

/** What the statement that stores a report is given. */
export type GivenFields = StatusRow & {
  repository_id: number
  reporter_id: number | null
  run: string | null
  /** Milliseconds since the run began; null without a run. */
  elapsed: number | null
  /** null without a claim. */
  claim_seconds: number | null
  /** When it may be stored at the latest, by `performance.now()`; null: no limit. */
  stored_by: number | null
}

/** Returns the milliseconds that are left to store a report; null if there is no limit. */
export function timeLeft({ stored_by: end }: Pick<GivenFields, 'stored_by'>): number | null {
  return end === null ? null : Math.floor(end - performance.now())
}

type AlwaysDecided = Pick<GivenFields, (typeof decidedColumns)[number]>
/** What that statement returns for a report of a run, and for any. */
export type DecidedOfRun = AlwaysDecided & RunState & ClaimAnswer
export type DecidedFields = AlwaysDecided & Partial<RunState & ClaimAnswer>

type StoredFields = Pick<StatusRow, ReportedColumn>
/** What a report says. A field that may be null may also be missing. */
export type ReportedFields = Partial<StoredFields> & Pick<StoredFields, 'context' | 'state'>

/** Returns what is stored of a report: null where it says nothing. */
export function fieldsOf(report: ReportedFields): StoredFields {
  const fields: Partial<Record<ReportedColumn, string | number | null>> = {}
  for (const name of reportedColumns) fields[name] = report[name] ?? null
  // The type of the report requires what cannot be null.
  return fields as StoredFields
}
