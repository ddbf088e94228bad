import type { RawBuilder, Selectable } from 'kysely'
import type { Tables } from '../tables.ts'
import type { AuditEvent, NamedRepository } from './audit.ts'

/** Which events to list. */
export interface AuditFilter {
  /** Milliseconds since the epoch. */
  since?: number | undefined
  /** Events of which this user, or an earlier one of that name, is the actor or the subject. */
  user?: string | undefined
  /** Events of the repository OWNER/NAME. */
  repository?: string | undefined
  /** What was done with and to tokens of this id or name. */
  token?: string | undefined
}

/**
 * What an event of a repository tells that can be listed. A name is released without a repository, and who
 * asks for the events of one that was deleted gets 404.
 */
export type RepositoryAction = Exclude<
  Extract<AuditEvent, { repository: NamedRepository }>['action'],
  'repository.name-released' | 'repository.deleted'
>

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
] as const satisfies readonly RepositoryAction[]

/** Which events of a repository to list. */
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

/**
 * Returns a function that reads the latest events of a repository, as `latestOf` of the audit log. Of a
 * user, it finds none of a kind that only a later version knows.
 *
 * @param read returns up to `limit` events before a position, newest first
 */
export function createRepositoryEvents(
  read: (options: ReadOptions, order: 'desc', limit: number, from?: Position) => Promise<Row[]>,
) {
  return async (
    repositoryId: number,
    { action, user }: RepositoryEventFilter,
    count: number,
    before?: Position,
  ): Promise<Row[]> => {
    if (user === undefined) return read({ repositoryId, action }, 'desc', count, before)
    // One search for each action reads only what it finds, whether an action is given or not.
    const rows = await read({ repositoryId, action, subject: user }, 'desc', count, before)
    for (const each of action === undefined ? REPOSITORY_ACTIONS : [action])
      rows.push(...(await read({ repositoryId, action: each, actor: user }, 'desc', count, before)))
    return rows.sort(newestFirst).slice(0, count)
  }
}

export function newestFirst(one: Position, other: Position): number {
  return other.time - one.time || other.id - one.id
}
