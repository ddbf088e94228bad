import type { Selectable, Transaction } from 'kysely'
import type { Author, Pusher } from '../../domain/actors.ts'
import { nameKey } from '../../domain/names.ts'
import { chunksOf } from '../../util/lists.ts'
import { truncate } from '../../util/truncate.ts'
import { isPresent } from '../deleted-repositories.ts'
import { INSERTED_ROWS } from '../steps.ts'
import type { Queries, Tables } from '../tables.ts'
import { type AuditEvent, type AuditLine, BACKUP, type NamedRepository, type PushedAs } from './audit.ts'

type Row = Selectable<Tables['audit_events']>

/** Maximum number of updates that an event lists. */
export const MAX_UPDATES = 50
/** Maximum length of a text in an event, in code points. */
const MAX_TEXT = 255
/** Maximum length of the details in JSON, in characters. */
const MAX_DETAILS = 32 * 1024

/**
 * Stores events. Call it in the transaction of the actions, so that there is one if and only if
 * there is the other.
 *
 * @param operator added to the details of what an administrator did
 * @returns the events as they are to be logged once the transaction has been committed
 */
export async function recordEvents(
  db: Transaction<Tables>,
  by: Author,
  events: readonly AuditEvent[],
  operator = {},
): Promise<AuditLine[]> {
  const lines: AuditLine[] = []
  for (const chunk of chunksOf(events, INSERTED_ROWS)) {
    const rows = chunk.map((event) => rowOf(by, event, operator))
    const stored = await db.insertInto('audit_events').values(rows).returning('id').execute()
    // Ids are assigned in the order of the rows, but may be returned in another one.
    const ids = stored.map(({ id }) => id).sort((a, b) => a - b)
    lines.push(...rows.map((row, index) => lineOf({ id: ids[index] ?? 0, ...row })))
  }
  return lines
}

/**
 * Replaces the details of a stored event.
 *
 * @returns whether it is still stored
 */
export async function replaceDetails(
  db: Transaction<Tables>,
  by: Author,
  id: number,
  event: AuditEvent,
  operator = {},
): Promise<boolean> {
  const { details } = rowOf(by, event, operator)
  const { numUpdatedRows } = await db
    .updateTable('audit_events')
    .set({ details })
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

function rowOf(by: Author, event: AuditEvent, operator: object): Omit<Row, 'id'> {
  const { action } = event
  const subject = 'subject' in event ? event.subject : undefined
  const user = by.kind === 'user' ? by.user : subject
  const token = by.kind === 'user' ? by.token : undefined
  const repository = 'repository' in event ? event.repository : undefined
  const backup = 'object' in event && event.object === BACKUP ? BACKUP : null
  return {
    time: Date.now(),
    actor: by.kind,
    user_id: user?.id ?? null,
    user_name: user?.name ?? null,
    user_key: user === undefined ? null : nameKey(user.name),
    subject_id: subject?.id ?? null,
    subject_name: subject?.name ?? null,
    subject_key: subject === undefined ? null : nameKey(subject.name),
    token_id: token?.id ?? null,
    token_name: token === undefined ? null : bounded(token.name),
    address: by.kind === 'administrator' ? null : by.address,
    action,
    object: bounded(objectOf(event)),
    repository_key: repository === undefined ? backup : nameKey(repository.name),
    repository_id: repository?.id ?? null,
    details: detailsOf({ ...event.details, ...(by.kind === 'administrator' && operator) }),
  }
}

/** Returns the name of a repository, OWNER/NAME; undefined if it was deleted. */
export async function repositoryNameOf(db: Queries, id: number): Promise<string | undefined> {
  const row = await db
    .selectFrom('repositories')
    .select(['owner', 'name'])
    .where('id', '=', id)
    .where(isPresent)
    .executeTakeFirst()
  return row && `${row.owner}/${row.name}`
}

/**
 * Returns the repository of a push as its events name it: by its present name, or by the name that
 * the client used if it has been deleted.
 */
export async function pushedRepository(
  db: Queries,
  { repositoryId: id, repositoryName: used }: Pusher,
): Promise<{ repository: NamedRepository; pushedAs: PushedAs; isDeleted: boolean }> {
  const present = await repositoryNameOf(db, id)
  const name = present ?? used
  const pushedAs = nameKey(name) === nameKey(used) ? {} : { as: used }
  return { repository: { id, name }, pushedAs, isDeleted: present === undefined }
}

function objectOf(event: AuditEvent): string {
  if ('repository' in event) return event.repository.name
  if ('group' in event) return event.group
  if ('token' in event) return event.token
  if ('object' in event) return event.object
  return 'subject' in event ? event.subject.name : 'audit log'
}

/**
 * Returns the details in JSON. Texts are cut to `MAX_TEXT`; PostgreSQL stores no U+0000, which JSON
 * escapes.
 */
function detailsOf(details: object): string {
  const text = JSON.stringify(details, (_name, value: unknown) =>
    typeof value === 'string' ? bounded(value) : value,
  )
  return text.length <= MAX_DETAILS ? text : JSON.stringify({ omitted: `${text.length} characters` })
}

function bounded(text: string): string {
  return truncate(text, MAX_TEXT).toWellFormed().replaceAll('\0', '\ufffd')
}

/** Returns a stored event as it is printed and logged. */
export function lineOf(row: Row): AuditLine {
  return {
    id: row.id,
    time: new Date(row.time).toISOString(),
    actor: row.actor,
    user: row.user_name,
    subject: row.subject_name,
    token_id: row.token_id,
    token_name: row.token_name,
    address: row.address,
    action: row.action,
    object: row.object,
    details: readDetails(row.details) ?? { unreadable: bounded(row.details) },
  }
}

/** Returns stored details; null if they cannot be read. */
export function readDetails(text: string): AuditLine['details'] | null {
  try {
    const details: unknown = JSON.parse(text)
    // Only `detailsOf` writes this column.
    return typeof details === 'object' && details !== null ? (details as AuditLine['details']) : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
