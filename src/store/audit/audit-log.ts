import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Administrator } from '../../domain/actors.ts'
import { nameKey } from '../../domain/names.ts'
import type { Reading } from '../engine.ts'
import type { Tables } from '../tables.ts'
import { type AuditLine, BACKUP } from './audit.ts'
import type { Transact } from './change.ts'
import { lineOf } from './event-rows.ts'
import {
  type AuditFilter,
  createRepositoryEvents,
  newestFirst,
  type Position,
  type ReadOptions,
  type RepositoryEventFilter,
} from './repository-events.ts'

type Row = Selectable<Tables['audit_events']>

const TOKEN_ID = /^[0-9a-f]{16}$/
/** Rows that are deleted at a time. */
const BATCH = 1_000
/** Rows that are read at a time: each may have 32 KiB. */
const READ_AT_ONCE = 100
/** Milliseconds after its time in which an event is committed. */
const SETTLED = 30_000

/**
 * Returns functions that read the audit log. Events are ordered by time. They are never changed,
 * but for the counts of `statuses.pruned`, and only `prune` removes any. They have no foreign keys, so they outlive the users, tokens and
 * repositories that they name.
 */
export function createAuditLog({ kysely, remote }: Reading) {
  /** @param from reads the events after this one in the order */
  async function read(
    options: ReadOptions,
    order: 'asc' | 'desc',
    limit: number,
    from?: Position,
  ): Promise<Row[]> {
    const { since, user, userId, actor, subject, repository, repositoryId, action, token, condition } =
      options
    if (user !== undefined) {
      // Two searches, each of its own index, because one with "or" would sort all that it finds.
      const rows: Row[] = []
      for (const by of [{ actor: user }, { subject: user }])
        rows.push(...(await read({ ...options, user: undefined, ...by }, order, limit, from)))
      rows.sort(newestFirst)
      return (order === 'asc' ? rows.reverse() : rows).slice(0, limit)
    }
    let query = kysely.selectFrom('audit_events').selectAll()
    if (action !== undefined) query = query.where('action', '=', action)
    if (since !== undefined) query = query.where('time', '>=', since)
    if (repository !== undefined) query = query.where('repository_key', '=', nameKey(repository))
    if (repositoryId !== undefined) query = query.where('repository_id', '=', repositoryId)
    if (token !== undefined) query = query.where(isOfToken(token))
    if (condition !== undefined) query = query.where(condition)
    if (actor !== undefined) {
      query = query.where('user_key', '=', nameKey(actor))
      if (userId !== undefined) query = query.where('user_id', '=', userId)
    }
    if (subject !== undefined) {
      query = query.where('subject_key', '=', nameKey(subject)).whereRef('subject_key', '<>', 'user_key')
      if (userId !== undefined) query = query.where('subject_id', '=', userId)
    }
    query = query.orderBy('time', order).orderBy('id', order).limit(limit)
    if (!from) return query.execute()
    const isAfter = order === 'asc' ? '>' : '<'
    if (remote)
      return query.where(sql<boolean>`(time, id) ${sql.raw(isAfter)} (${from.time}, ${from.id})`).execute()
    // SQLite searches an index for the first column of such a pair alone, so that it would read all
    // events of a millisecond again for each batch of them.
    const rows = await query.where('time', '=', from.time).where('id', isAfter, from.id).execute()
    if (rows.length === limit) return rows
    const others = await query
      .where('time', isAfter, from.time)
      .limit(limit - rows.length)
      .execute()
    return [...rows, ...others]
  }

  const readOf = createRepositoryEvents(read)

  /** Yields the events in batches, oldest first. */
  async function* list(filter: AuditFilter): AsyncGenerator<AuditLine[]> {
    for (let last: Row | undefined; ; ) {
      const rows: Row[] = await read(filter, 'asc', READ_AT_ONCE, last)
      last = rows.at(-1)
      if (!last) return
      yield rows.map(lineOf)
    }
  }

  return {
    list,

    /**
     * Yields the events, and then new ones as they are committed, without end.
     *
     * An event can be committed after later ones. So each poll reads again what was not older than
     * `SETTLED` milliseconds at the previous one, and skips what was returned. For example:
     *
     * ```
     *   poll at 60 s   reads 1 (of 20 s) and 3 (of 59 s), returns both; forgets 1, of before 30 s
     *                  2 (of 58 s) is committed
     *   poll at 61 s   reads from 30 s on: 2 and 3, returns 2; 3 was returned
     * ```
     *
     * @param wait called before each further poll
     */
    async *follow(filter: AuditFilter, wait: () => Promise<void>): AsyncGenerator<AuditLine[]> {
      /** The ids that were returned and that the next poll reads again, and their times. */
      const returned = new Map<number, number>()
      for (let since = filter.since; ; await wait()) {
        const settled = Date.now() - SETTLED
        for await (const lines of list({ ...filter, since })) {
          const newLines = lines.filter(({ id }) => !returned.has(id))
          for (const { id, time } of newLines) returned.set(id, Date.parse(time))
          if (newLines.length > 0) yield newLines
          for (const [id, time] of returned) if (time < settled) returned.delete(id)
        }
        since = Math.max(settled, filter.since ?? 0)
      }
    },

    /**
     * Returns a user's latest events, newest first, without what is not for users: accounts of the
     * server's machine, the tokens and addresses of others, and names that repositories got during
     * a push.
     *
     * @param before from an earlier page: the position of its last event
     */
    async latest(
      { id, name }: { id: number; name: string },
      count: number,
      before?: Position,
    ): Promise<AuditLine[]> {
      const rows = await read({ user: name, userId: id }, 'desc', count, before)
      return rows.map((row) => withNameOfPush(lineForUsers(row, id)))
    },

    /**
     * Returns the latest events of a repository, also under the names that it had, but none of
     * another repository that had one of them before or after it; see `latest`. Whatever the filter,
     * each statement reads a range of an index.
     */
    async latestOf(
      repositoryId: number,
      userId: number,
      filter: RepositoryEventFilter,
      count: number,
      before?: Position,
    ): Promise<AuditLine[]> {
      const rows = await readOf(repositoryId, filter, count, before)
      return rows.map((row) => lineForUsers(row, userId))
    },

    /** Returns the latest event of a backup, or the latest with this action. */
    async latestBackup(action?: 'backup.completed'): Promise<AuditLine | undefined> {
      const condition = action && sql<boolean>`action = ${action}`
      const [row] = await read({ repository: BACKUP, ...(condition && { condition }) }, 'desc', 1)
      return row && lineOf(row)
    },

    /**
     * Removes events before a time and records that.
     *
     * @param before milliseconds since the epoch
     * @returns how many
     */
    async prune(transact: Transact<Administrator>, before: number): Promise<number> {
      let removed = 0
      for (;;) {
        const count = await transact(async (change) => {
          const { numDeletedRows } = await change.db
            .deleteFrom('audit_events')
            .where('id', 'in', (eb) =>
              eb
                .selectFrom('audit_events')
                .select('id')
                .where('time', '<', before)
                .orderBy('time')
                .limit(BATCH),
            )
            .executeTakeFirstOrThrow()
          if (removed === 0 && numDeletedRows > 0n)
            await change.record({
              action: 'audit.pruned',
              details: { before: new Date(before).toISOString() },
            })
          return Number(numDeletedRows)
        })
        removed += count
        if (count < BATCH) return removed
      }
    },
  }
}

/** Returns the condition that an event was made with a token, or is about one. @param named its id or name */
function isOfToken(named: string): RawBuilder<boolean> {
  // Of a rotation, the details name the token that was replaced too.
  const inDetails = TOKEN_ID.test(named) ? sql`details like ${`%"${named}"%`}` : sql`object = ${named}`
  return sql<boolean>`(token_id = ${named} or token_name = ${named} or (action like 'token.%' and ${inDetails}))`
}

/** Returns an event as the user with the id may see it. */
function lineForUsers(row: Row, userId: number): AuditLine {
  const { details, ...line } = lineOf(row)
  const { account: _1, sudo_user: _2, ...shown } = details
  const isOthers = row.actor === 'user' && row.user_id !== userId
  const hidden = isOthers && { token_id: null, token_name: null, address: null }
  return { ...line, ...hidden, details: shown }
}

/** Returns an event of a push, like others, without a name that the repository got meanwhile. */
function withNameOfPush({ details, ...line }: AuditLine): AuditLine {
  const { as: used, ...shown } = details
  return typeof used === 'string' ? { ...line, object: used, details: shown } : { ...line, details }
}
