import { type Kysely, sql } from 'kysely'
import {
  type Audit,
  type AuditEvent,
  type Pusher,
  type RefUpdate,
  recordEvent,
  repositoryNameOf,
} from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import { prepare } from '../prepared.ts'
import { locate } from '../repository-files.ts'
import type { Tables } from '../tables.ts'
import type { Repository } from './repositories.ts'

/**
 * What became of the updates that a push asked for. Those that were not made are in neither list.
 */
export interface PushOutcome {
  updates: readonly RefUpdate[]
  /** Updates that may have been made: their refs have other values by now. */
  unknown?: readonly RefUpdate[]
  /** Whether refs were compared, because git did not report the updates. */
  unreported?: true
  /** Whether the server did not see the end of the push. */
  interrupted?: true
}

/** A push whose end was not recorded. */
export interface OpenPush {
  id: number
  pusher: Pusher
  /** null if it was deleted. */
  repository: Pick<Repository, 'path' | 'ownerTrust'> | null
  commands: RefUpdate[]
}

/** Maximum number of updates that an event lists. */
const MAX_UPDATES = 50
/** Open pushes that are read at a time. */
const BATCH = 100

/**
 * Returns functions that record pushes. What a push asks for is stored before git starts, so that
 * every update that git makes gets into the audit log, whatever ends before the push does:
 *
 * ```
 *   begin ──▶ stored ── git has ended ─────────────────▶ settle: row removed, event recorded if a ref moved
 *                └───── overdue: the server was killed ─▶ settle: row removed, event recorded
 * ```
 *
 * Both happen in one transaction. If several processes find a push overdue, the one that removes
 * its row records the event. The process that has seen the end always records it: if the clock of
 * the database jumps, another process may have settled the push too early.
 */
export function createPushStore(engine: Engine, repositories: string, audit: Audit) {
  const { kysely, dialect } = engine
  const now = sql<number>`${sql.raw(dialect.now)}`
  const insert = prepare<{ repositoryId: number; pusher: string; commands: string }>()((p) =>
    kysely
      .insertInto('push_intents')
      .values({ repository_id: p.repositoryId, pusher: p.pusher, commands: p.commands, started_at: now })
      .returning('id'),
  )

  async function settle(id: number, pusher: Pusher, outcome: PushOutcome): Promise<void> {
    await audit.transaction(async (db, record) => {
      const { numDeletedRows } = await db
        .deleteFrom('push_intents')
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
      if (numDeletedRows === 0n && outcome.interrupted) return
      if (isEvent(outcome)) await record(await eventOf(db, pusher, outcome))
    })
  }

  /**
   * Returns open pushes that began at least `age` milliseconds ago, oldest first, and at most
   * `BATCH` of them.
   */
  async function listOpen(age: number): Promise<OpenPush[]> {
    const rows = await kysely
      .selectFrom('push_intents')
      .leftJoin('repositories', 'repositories.id', 'push_intents.repository_id')
      .select([
        'push_intents.id',
        'pusher',
        'commands',
        'repository_id',
        'repositories.id as present_id',
        'path',
        'trust_owner',
      ])
      .where('started_at', '<=', sql<number>`${now} - ${age}`)
      .orderBy('push_intents.id')
      .limit(BATCH)
      .execute()
    return rows.map(({ id, pusher, commands, repository_id, present_id, path, trust_owner }) => ({
      id,
      ...readIntent({ pusher, commands }),
      repository: present_id === null ? null : locate(repositories, { id: repository_id, path, trust_owner }),
    }))
  }

  return {
    /** Stores what a push asks for. Returns the id of the record. @throws StoreUnavailable */
    async begin(pusher: Pusher, commands: readonly RefUpdate[]): Promise<number> {
      const row = {
        repositoryId: pusher.repositoryId,
        pusher: JSON.stringify(pusher),
        commands: JSON.stringify(commands),
      }
      const [stored] = await engine.write(insert, row, 'push intents')
      if (!stored) throw new Error('the push was not stored')
      return stored.id
    },
    listOpen,

    /** Returns the refs that all open pushes name, as in events. */
    async listOpenRefs(): Promise<{ repositoryId: number; ref: string }[]> {
      const rows = await kysely.selectFrom('push_intents').select(['pusher', 'commands']).execute()
      return rows
        .map(readIntent)
        .flatMap(({ pusher: { repositoryId }, commands }) =>
          commands.map(decodeName).map(({ ref }) => ({ repositoryId, ref })),
        )
    },

    settle,
  }
}

/**
 * Settles all open pushes as unknown: of a database that is restored, what became of them cannot be
 * told.
 */
export async function settleAsUnknown(db: Kysely<Tables>): Promise<void> {
  const rows = await db.deleteFrom('push_intents').returning(['pusher', 'commands']).execute()
  for (const { pusher, commands } of rows.map(readIntent)) {
    const outcome: PushOutcome = { updates: [], unknown: commands, interrupted: true }
    await recordEvent(db, await eventOf(db, pusher, outcome))
  }
}

/** Only `begin` writes these columns. */
function readIntent(row: { pusher: string; commands: string }): Pick<OpenPush, 'pusher' | 'commands'> {
  return { pusher: JSON.parse(row.pusher) as Pusher, commands: JSON.parse(row.commands) as RefUpdate[] }
}

/** Returns whether an outcome gets into the audit log. An interrupted push does in any case. */
function isEvent({ updates, unknown = [], interrupted }: PushOutcome): boolean {
  return interrupted === true || updates.length > 0 || unknown.length > 0
}

async function eventOf(
  db: Kysely<Tables>,
  { by, repositoryId, repositoryName }: Pusher,
  { updates, unknown = [], unreported, interrupted }: PushOutcome,
): Promise<AuditEvent> {
  const listed = updates.slice(0, MAX_UPDATES).map(decodeName)
  const undecided = unknown.slice(0, MAX_UPDATES - listed.length).map(decodeName)
  const more = updates.length + unknown.length - listed.length - undecided.length
  const details = {
    updates: listed,
    ...(undecided.length > 0 && { unknown: undecided }),
    ...(more > 0 && { more }),
    ...(unreported && { unreported }),
    ...(interrupted && { interrupted }),
  }
  const repository = (await repositoryNameOf(db, repositoryId)) ?? repositoryName
  return { by, action: 'push', repository, details }
}

function decodeName(update: RefUpdate): RefUpdate {
  return { ...update, ref: Buffer.from(update.ref, 'latin1').toString() }
}
