import type { components } from '../../../generated/schema.ts'

/** What becomes of a column when its context is reported again. `latest`: a time that never goes back. */
type OnReplace = 'key' | 'kept' | 'replaced' | 'latest'

interface Column {
  type: 'text' | 'integer'
  onReplace: OnReplace
  /** Whether a report has a field of this name. */
  isReported: boolean
  /** Whether an answer has a field of this name. */
  isAnswered: boolean
}

const key = { onReplace: 'key', isReported: false } as const
const reported = { type: 'text', isReported: true, isAnswered: true } as const
const time = { type: 'integer', isReported: false, isAnswered: true } as const

/** What a report stores. The statements that write and read statuses, the rows and the answers follow from this table. */
const columns = {
  repository_id: { ...key, type: 'integer', isAnswered: false },
  sha: { ...key, type: 'text', isAnswered: true },
  context: { ...reported, onReplace: 'key' },
  id: { type: 'text', onReplace: 'kept', isReported: false, isAnswered: true },
  state: { ...reported, onReplace: 'replaced' },
  description: { ...reported, onReplace: 'replaced' },
  target_url: { ...reported, onReplace: 'replaced' },
  created_at: { ...time, onReplace: 'kept' },
  updated_at: { ...time, onReplace: 'latest' },
  /** Who sent the latest report. */
  reporter_id: { type: 'integer', onReplace: 'replaced', isReported: false, isAnswered: false },
} as const satisfies Record<string, Column>

type Columns = typeof columns
export type StoredColumn = keyof Columns
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

export const storedColumns = namesWith({})
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
/** What a report says. A field that may be null may also be missing. */
export type ReportedFields = Partial<StoredFields> & Pick<StoredFields, 'context' | 'state'>

/** Returns what is stored of a report: null where it says nothing. */
export function fieldsOf(report: ReportedFields): StoredFields {
  const fields: Partial<Record<ReportedColumn, string | null>> = {}
  for (const name of reportedColumns) fields[name] = report[name] ?? null
  // The type of the report requires what cannot be null.
  return fields as StoredFields
}

/** Returns the start of the run of a reported check, in SQL. @param reported the value of a column in the report */
export function reportedStart(reported: (name: StoredColumn) => string): string {
  return `case when ${reported('state')} = 'pending' then ${reported('updated_at')} end`
}

/**
 * Returns what becomes of the columns of a status that is reported again, in SQL. A run that ended ends once: what is reported
 * after it without another `pending` has an unknown start.
 *
 * @param reported the value of a column in the report
 * @param greatest the dialect's function
 */
export function replacements(
  reported: (name: StoredColumn) => string,
  greatest: 'max' | 'greatest',
): [column: string, value: string][] {
  const started = "case when statuses.state = 'pending' then statuses.pending_at end"
  return [
    ...replacedColumns.map((name): [string, string] => [name, reported(name)]),
    ['updated_at', `${greatest}(${reported('updated_at')}, statuses.updated_at)`],
    ['pending_at', `coalesce(${reportedStart(reported)}, ${started})`],
  ]
}

/**
 * Returns the PostgreSQL function that stores a report unless the commit has `max_contexts` other contexts. It returns no row
 * then.
 *
 * Each of its statements sees what was committed before it began. So what is counted after the lock was taken includes
 * every context that another transaction added under the same lock, which it holds until its commit. A replacing report
 * takes no lock. Commits whose keys collide just wait for each other.
 *
 * The names of columns are qualified where they are also columns of the result.
 */
export function reportFunction(): string {
  const sqlType = (name: StoredColumn) => (columns[name].type === 'integer' ? 'bigint' : 'text')
  const parameters = storedColumns.map((name) => `new_${name} ${sqlType(name)}`)
  const results = decidedColumns.map((name) => `${name} ${sqlType(name)}`)
  const decided = decidedColumns.map((name) => `statuses.${name}`).join(', ')
  const same = 'repository_id = new_repository_id and sha = new_sha and context = new_context'
  const reported = (name: StoredColumn) => `new_${name}`
  const set = replacements(reported, 'greatest')
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ')
  return `create or replace function report_status(${parameters.join(', ')}, max_contexts bigint)
  returns table (${results.join(', ')}) language plpgsql as $$
  begin
    return query update statuses set ${set} where ${same} returning ${decided};
    if found then
      return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended(new_sha, new_repository_id));
    return query insert into statuses (${storedColumns.join(', ')}, pending_at)
      select ${storedColumns.map(reported).join(', ')}, ${reportedStart(reported)}
      where exists (select from statuses where ${same})
        or not exists (
          select from statuses where repository_id = new_repository_id and sha = new_sha offset max_contexts - 1)
      on conflict (repository_id, sha, context) do update set ${set}
      returning ${decided};
  end $$`
}
