import { type RawBuilder, type Selectable, sql } from 'kysely'
import { nameKey } from '../../domain/names.ts'
import type { Tables } from '../tables.ts'
import type { AuditEvent, NamedRepository } from './audit.ts'
import { lineOf } from './event-rows.ts'

/** Which events to list. */
export interface AuditFilter {
  /** Milliseconds since the epoch. */
  since?: number | undefined
  /** Events of which this user, or an earlier one of that name, is the actor or the subject. */
  user?: string | undefined
  /** Events of the repository OWNER/NAME. */
  repository?: string | undefined
}

/** What an event of a repository tells. */
export type RepositoryAction = Extract<AuditEvent, { repository: NamedRepository }>['action']

/** All of them, those first that are looked for most. */
export const REPOSITORY_ACTIONS = [
  'push',
  'rule.bypassed',
  'rule.set',
  'rule.removed',
  'repository.access',
  'repository.reporters',
  'repository.visibility',
  'repository.default-branch',
  'status.requested',
  'status.deleted',
  'repository.created',
  'repository.imported',
  'repository.renamed',
  'repository.transferred',
  'repository.name-released',
  'repository.deleted',
] as const satisfies readonly RepositoryAction[]

/** A repository whose events are listed. */
export interface RepositoryOfEvents {
  id: number
  /** What it is called now: OWNER/NAME. */
  name: string
  /** When it was created, in milliseconds since the epoch. */
  since: number
}

/** Which of them. */
export interface RepositoryEventFilter {
  action?: RepositoryAction | undefined
  /** As in `AuditFilter`. */
  user?: string | undefined
}

/** The place of an event in the order of events. */
export interface Position {
  time: number
  id: number
}

/** What a statement finds events by. */
export interface ReadOptions extends AuditFilter {
  /** Who did it. */
  actor?: string
  /** Whom it concerns, who did not do it. */
  subject?: string
  /** The id of the user by whose name events are found. */
  userId?: number
  repositoryId?: number
  action?: RepositoryAction | undefined
  condition?: RawBuilder<boolean>
}

type Row = Selectable<Tables['audit_events']>

/** The condition of the index `audit_events_of_moves`, which a parameter would not match. */
const IS_MOVE = sql<boolean>`action in ('repository.renamed', 'repository.transferred')`
/** The condition of the index `audit_events_without_id`. */
const HAS_NO_ID = sql<boolean>`repository_id is null`
/** Former names of a repository whose events are found. */
const MAX_MOVES = 100

/**
 * Returns a function that reads the latest events of a repository, as `latestOf` of the audit log.
 *
 * @param read returns up to `limit` events before a position, newest first
 */
export function createRepositoryEvents(
  read: (options: ReadOptions, order: 'desc', limit: number, from?: Position) => Promise<Row[]>,
) {
  /** Returns events of a repository by its id, as `latestOf`, but not in order. */
  async function readById(
    repositoryId: number,
    { action, user }: RepositoryEventFilter,
    count: number,
    before?: Position,
  ): Promise<Row[]> {
    if (user === undefined) return read({ repositoryId, action }, 'desc', count, before)
    // One search for each action reads only what it finds, whether an action is given or not.
    const rows = await read({ repositoryId, action, subject: user }, 'desc', count, before)
    for (const each of action === undefined ? REPOSITORY_ACTIONS : [action])
      rows.push(...(await read({ repositoryId, action: each, actor: user }, 'desc', count, before)))
    return rows
  }

  /**
   * Returns events of version 0.3.0, which have no id of a repository, as `latestOf`: by the names
   * that the repository had, one after the other.
   */
  async function readByNames(
    { name, since }: RepositoryOfEvents,
    { action, user }: RepositoryEventFilter,
    count: number,
    before?: Position,
  ): Promise<Row[]> {
    const key = user === undefined ? undefined : nameKey(user)
    const condition =
      key === undefined
        ? HAS_NO_ID
        : sql<boolean>`${HAS_NO_ID} and (user_key = ${key} or subject_key = ${key})`
    const rows: Row[] = []
    let repository: string | null = name
    let until: Position | undefined
    for (let moves = 0; repository !== null && rows.length < count && moves <= MAX_MOVES; moves++) {
      // By which the repository got this name.
      const [named]: Row[] = await read({ repository, since, condition: IS_MOVE }, 'desc', 1, until)
      const from = until && before && isBefore(until, before) ? until : (before ?? until)
      const limit = count - rows.length
      const wanted = { repository, since: named?.time ?? since, action, condition }
      const events = await read(wanted, 'desc', limit, from)
      rows.push(...events.filter((row) => !named || !isBefore(row, named)))
      until = named
      const formerName = named && lineOf(named).details.from
      repository = typeof formerName === 'string' ? formerName : null
    }
    return rows
  }

  return async (
    repository: RepositoryOfEvents,
    filter: RepositoryEventFilter,
    count: number,
    before?: Position,
  ): Promise<Row[]> => {
    const rows = [
      ...(await readById(repository.id, filter, count, before)),
      ...(await readByNames(repository, filter, count, before)),
    ]
    return rows.sort(newestFirst).slice(0, count)
  }
}

export function newestFirst(one: Position, other: Position): number {
  return other.time - one.time || other.id - one.id
}

function isBefore(one: Position, other: Position): boolean {
  return one.time < other.time || (one.time === other.time && one.id < other.id)
}
