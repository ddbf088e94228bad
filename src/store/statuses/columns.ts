import type { components } from '../../../generated/schema.ts'

/**
 * What becomes of a column when its context is reported again. `latest`: a time that never goes
 * back. `run`: the start of the run that the report belongs to, which follows from other columns.
 */
type OnReplace = 'key' | 'kept' | 'replaced' | 'latest' | 'run'

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
  pending_at: { type: 'integer', onReplace: 'run', isReported: false, isAnswered: false },
} as const satisfies Record<string, Column>

type Columns = typeof columns
export type StoredColumn = keyof Columns
export type GivenColumn = Exclude<StoredColumn, NamesWith<{ onReplace: 'run' }>>
type NamesWith<Part extends Partial<Column>> = {
  [Name in StoredColumn]: Columns[Name] extends Part ? Name : never
}[StoredColumn]
type AnsweredColumn = NamesWith<{ isAnswered: true }>
type ReportedColumn = NamesWith<{ isReported: true }>

function namesWith<Part extends Partial<Column>>(part: Part): NamesWith<Part>[] {
  const names = Object.keys(columns) as StoredColumn[]
  const isPart = (name: StoredColumn) => {
    const column: Column = columns[name]
    return Object.entries(part).every(([field, value]) => column[field as keyof Column] === value)
  }
  // The test of the values is the condition of the type.
  return names.filter(isPart) as NamesWith<Part>[]
}

const isGiven = (name: StoredColumn): name is GivenColumn => columns[name].onReplace !== 'run'

export const storedColumns = namesWith({})
/** What the statement that stores a report is given. */
export const givenColumns = storedColumns.filter(isGiven)
export const answeredColumns = namesWith({ isAnswered: true })
const reportedColumns = namesWith({ isReported: true })
export const replacedColumns = namesWith({ onReplace: 'replaced' })
/** What the database decides. All other columns equal the report. */
export const decidedColumns = [...namesWith({ onReplace: 'kept' }), ...namesWith({ onReplace: 'latest' })]

type Status = components['schemas']['Status']
/** A status as stored; times in seconds since the epoch. */
export type StatusRow = {
  [Name in AnsweredColumn]: Columns[Name]['type'] extends 'integer' ? number : Status[Name]
}
type StoredFields = Pick<StatusRow, ReportedColumn>
/** What the statement that stores a report is given, and what it returns. */
export type GivenFields = StatusRow & { repository_id: number; reporter_id: number | null }
export type DecidedFields = Pick<StatusRow, (typeof decidedColumns)[number]>
/** What a report says. A field that may be null may also be missing. */
export type ReportedFields = Partial<StoredFields> & Pick<StoredFields, 'context' | 'state'>

/** Returns what is stored of a report: null where it says nothing. */
export function fieldsOf(report: ReportedFields): StoredFields {
  const fields: Partial<Record<ReportedColumn, string | null>> = {}
  for (const name of reportedColumns) fields[name] = report[name] ?? null
  // The type of the report requires what cannot be null.
  return fields as StoredFields
}

/** Returns the SQL of a column of the report. */
type Reported = (name: GivenColumn) => string
type StoredValues = (readonly [column: StoredColumn, value: string])[]

const startOfRun = (reported: Reported) =>
  `case when ${reported('state')} = 'pending' then ${reported('updated_at')} end`

/** Returns what is stored of a new context, in SQL. */
export function insertions(reported: Reported): StoredValues {
  return storedColumns.map((name) => [name, isGiven(name) ? reported(name) : startOfRun(reported)])
}

/**
 * Returns what becomes of the columns of a status that is reported again, in SQL. A run that ended
 * ends once: what is reported after it without another `pending` has an unknown start.
 *
 * @param greatest the dialect's function
 */
export function replacements(reported: Reported, greatest: 'max' | 'greatest'): StoredValues {
  const latest = namesWith({ onReplace: 'latest' })
  const runs = namesWith({ onReplace: 'run' })
  const goesOn = (name: string) => `case when statuses.state = 'pending' then statuses.${name} end`
  return [
    ...replacedColumns.map((name) => [name, reported(name)] as const),
    ...latest.map((name) => [name, `${greatest}(${reported(name)}, statuses.${name})`] as const),
    ...runs.map((name) => [name, `coalesce(${startOfRun(reported)}, ${goesOn(name)})`] as const),
  ]
}

/** Returns the type of a column in PostgreSQL's functions. */
export function typeOf(name: StoredColumn): 'bigint' | 'text' {
  return columns[name].type === 'integer' ? 'bigint' : 'text'
}
