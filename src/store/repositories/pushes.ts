import { sql, type Transaction } from 'kysely'
import type { Pusher } from '../../domain/actors.ts'
import { decodeName, type RefUpdate } from '../../domain/ref-updates.ts'
import type { Audit } from '../audit/change.ts'
import { pushedRepository, recordEvents } from '../audit/event-rows.ts'
import { isPresent } from '../deleted-repositories.ts'
import type { Engine } from '../engine.ts'
import { prepare } from '../prepared.ts'
import { locate } from '../repository-files.ts'
import type { Tables } from '../tables.ts'
import { OPEN_PUSHES, openPushesKey, recordMoves } from './branch-moves.ts'
import { eventOf, isEvent, type PushOutcome, withoutOthers } from './push-events.ts'
import type { Repository } from './repositories.ts'

/** A push whose end was not recorded. */
export interface OpenPush {
  id: number
  pusher: Pusher
  /** null if it was deleted. */
  repository: Pick<Repository, 'path' | 'ownerTrust' | 'managed'> | null
  commands: RefUpdate[]
  /** See `Presence`. */
  server: string | null
  /** The ref that HEAD leaves if the push has deleted it, decoded as Latin-1. */
  head: string | null
  /** Whether git has asked which refs it may update; null if that is not known. */
  isGated: boolean | null
  /** Whether git has ended in any case. */
  isOverdue: boolean
}

/** A ref that a push under way may update. */
export interface UncheckedUpdate {
  /** Its full name, decoded as Latin-1. */
  ref: string
  /** Name of the user who pushes. */
  user: string
}

/** Open pushes that are read at a time. */
const BATCH = 100

/**
 * Returns functions that record pushes. What a push asks for is stored before git starts, so that
 * every update that git makes gets into the audit log, whatever ends before the push does:
 *
 * ```
 *   open ──▶ stored ── git has ended ─────────────────▶ settle: row removed, event recorded if a ref or HEAD moved
 *               └───── the server and git have ended,
 *                      or it is overdue ─────────────▶ settle: row removed, event recorded
 * ```
 *
 * Both happen in one transaction, with the record of how branches and HEAD moved. If several
 * processes find such a push, the one that removes its row records the event. The process that has
 * seen the end records it in any case: if the clock of the database jumps, another process may have
 * settled the push too early. Only where an earlier attempt of its own may have been committed, a
 * missing row means that.
 */
export function createPushStore(engine: Engine, repositories: string, audit: Audit) {
  const { kysely, dialect } = engine
  const now = sql<number>`${sql.raw(dialect.now)}`
  const insert = prepare<{
    repositoryId: number
    pusher: string
    commands: string
    server: string | null
    head: string | null
  }>()((p) =>
    kysely
      .insertInto('push_intents')
      .values(({ selectFrom }) => ({
        repository_id: p.repositoryId,
        pusher: p.pusher,
        commands: p.commands,
        started_at: now,
        server: p.server,
        head: p.head,
        gated: selectFrom('branch_rules')
          .select(sql<number>`case when count(*) > 0 then 1 else 0 end`.as('gated'))
          .where('repository_id', '=', p.repositoryId),
      }))
      .returning('id'),
  )

  /**
   * Returns whether the push was open.
   *
   * @param isAgain whether an earlier call for the same end may have been committed
   */
  function settle(id: number, pusher: Pusher, outcome: PushOutcome, isAgain = false): Promise<boolean> {
    // Recorded whatever has become of the token since then: the push was made.
    return audit.transaction({ kind: 'server' }, async (change) => {
      const { db } = change
      const [open] = await db
        .deleteFrom('push_intents')
        .where('id', '=', id)
        .returning('started_at')
        .execute()
      const wasOpen = open !== undefined
      if ((outcome.interrupted || isAgain) && !wasOpen) return wasOpen
      if (!isEvent(outcome) && !outcome.head) return wasOpen

      const pushed = await pushedRepository(db, pusher)
      // Where another process has settled the push too early, it is not known when the push began.
      const own =
        outcome.interrupted || outcome.unreported
          ? await withoutOthers(db, pushed.repository, open?.started_at ?? 0, outcome)
          : outcome
      // A deleted repository has no branches.
      if (!pushed.isDeleted) await recordMoves(change, pusher.repositoryId, id, own.updates)
      if (isEvent(outcome)) await change.recordOf(pusher.by, eventOf(pushed, own))
      const { repository } = pushed
      if (own.head)
        await change.recordOf(pusher.by, {
          action: 'repository.default-branch',
          repository,
          details: own.head,
        })
      return wasOpen
    })
  }

  /**
   * Returns open pushes, oldest first, and at most `BATCH` of them: those that are overdue, and
   * those of servers whose end can be seen.
   *
   * @param overdue milliseconds after which git has ended in any case
   * @param repositoryId default: of all repositories
   */
  async function listOpen(overdue: number, repositoryId?: number): Promise<OpenPush[]> {
    const isOverdue = sql<boolean>`started_at <= ${now} - ${overdue}`
    const rows = await kysely
      .selectFrom('push_intents')
      .leftJoin('repositories', (join) =>
        join.onRef('repositories.id', '=', 'push_intents.repository_id').on(isPresent),
      )
      .select([
        'push_intents.id',
        'pusher',
        'commands',
        'repository_id',
        'repositories.id as present_id',
        'path',
        'trust_owner',
        'server',
        'head',
        'gated',
        isOverdue.as('overdue'),
      ])
      .where(({ eb, or }) => or([isOverdue, eb('server', 'is not', null)]))
      .$if(repositoryId !== undefined, (query) => query.where('repository_id', '=', repositoryId ?? -1))
      .orderBy('push_intents.id')
      .limit(BATCH)
      .execute()
    return rows.map(
      ({ id, repository_id, present_id, path, trust_owner, server, head, gated, overdue, ...intent }) => ({
        id,
        ...readIntent(intent),
        repository:
          present_id === null ? null : locate(repositories, { id: repository_id, path, trust_owner }),
        server,
        head,
        isGated: gated === null ? null : gated === 1,
        isOverdue: Boolean(overdue),
      }),
    )
  }

  return {
    /**
     * Stores what a push asks for. Returns the id of the record.
     *
     * @param of see `OpenPush`
     * @throws StoreUnavailable
     */
    async open(
      pusher: Pusher,
      commands: readonly RefUpdate[],
      { server = null, head = null }: Partial<Pick<OpenPush, 'server' | 'head'>> = {},
    ): Promise<number> {
      const row = {
        repositoryId: pusher.repositoryId,
        pusher: JSON.stringify({ ...pusher, ...namesOf(commands) }),
        commands: JSON.stringify(commands),
        server,
        head,
      }
      const [stored] = await engine.write(insert, row, openPushesKey(row.repositoryId), OPEN_PUSHES)
      if (!stored) throw new Error('the push was not stored')
      return stored.id
    },
    listOpen,

    /** Returns whether a repository has an open push. @param beside the id of one that does not count */
    async hasOpen(repositoryId: number, beside?: number): Promise<boolean> {
      const open = kysely
        .selectFrom('push_intents')
        .select('id')
        .where('repository_id', '=', repositoryId)
        .$if(beside !== undefined, (query) => query.where('id', '!=', beside ?? -1))
      return (await open.limit(1).executeTakeFirst()) !== undefined
    },

    /**
     * Returns the refs of a repository that pushes under way may update although no rule has decided:
     * there was none when they began, so that git does not ask.
     */
    async listUnchecked(repositoryId: number): Promise<UncheckedUpdate[]> {
      const rows = await kysely
        .selectFrom('push_intents')
        .select(['pusher', 'commands'])
        .where('repository_id', '=', repositoryId)
        .where('gated', '=', 0)
        .execute()
      return rows
        .map(readIntent)
        .flatMap(({ pusher, commands }) => commands.map(({ ref }) => ({ ref, user: pusher.by.user.name })))
    },

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
export async function settleAsUnknown(db: Transaction<Tables>): Promise<void> {
  const rows = await db.deleteFrom('push_intents').returning(['pusher', 'commands']).execute()
  for (const { pusher, commands } of rows.map(readIntent)) {
    const outcome: PushOutcome = { updates: [], unknown: commands, interrupted: true }
    await recordEvents(db, pusher.by, [eventOf(await pushedRepository(db, pusher), outcome)])
  }
}

/**
 * Returns the names by which the event will call refs, where they are others. Nobody reads them: a
 * database that cannot store them refuses the push before git moves a ref.
 */
function namesOf(commands: readonly RefUpdate[]): { names?: string[] } {
  const names: string[] = []
  for (const command of commands) {
    const { ref } = decodeName(command)
    if (ref !== command.ref) names.push(ref)
  }
  return names.length > 0 ? { names } : {}
}

/** Only `open` writes these columns. */
function readIntent(row: { pusher: string; commands: string }): Pick<OpenPush, 'pusher' | 'commands'> {
  return { pusher: JSON.parse(row.pusher) as Pusher, commands: JSON.parse(row.commands) as RefUpdate[] }
}
