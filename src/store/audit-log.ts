import { type Selectable, sql } from 'kysely'
import { ADMINISTRATOR, type Audit, type AuditLine, lineOf } from './audit.ts'
import type { Engine } from './engine.ts'
import { nameKey } from './names.ts'
import type { Tables } from './tables.ts'

/** Which events to list. */
export interface AuditFilter {
  /** Milliseconds since the epoch. */
  since?: number | undefined
  /** Events of this user, and of earlier users of that name. */
  user?: string | undefined
  /** Events of the repository OWNER/NAME. */
  repository?: string | undefined
}

type Row = Selectable<Tables['audit_events']>

/** Rows that are read or deleted at a time. */
const BATCH = 1_000
/** Milliseconds in which transactions are committed. */
const SETTLED = 30_000

/**
 * Returns functions that read the audit log. Events are ordered by time. They are never changed, and only `prune` removes
 * any. They have no foreign keys, so they outlive the users, tokens and repositories that they name.
 */
export function auditLog({ kysely }: Engine, audit: Audit) {
  const matching = ({ since, user, repository }: AuditFilter) => {
    let query = kysely.selectFrom('audit_events').selectAll()
    if (since !== undefined) query = query.where('time', '>=', since)
    if (user !== undefined) query = query.where('user_key', '=', nameKey(user))
    if (repository !== undefined) query = query.where('repository_key', '=', nameKey(repository))
    return query
  }

  /** Yields the events in batches, oldest first. */
  async function* list(filter: AuditFilter): AsyncGenerator<AuditLine[]> {
    const query = matching(filter).orderBy('time').orderBy('id').limit(BATCH)
    for (let last: Row | undefined; ; ) {
      const after: Row | undefined = last
      const rows = await (after
        ? query.where(sql<boolean>`(time, id) > (${after.time}, ${after.id})`)
        : query
      ).execute()
      last = rows.at(-1)
      if (!last) return
      yield rows.map(lineOf)
    }
  }

  /** Yields the events with ids above `id` in batches, ordered by id. */
  async function* after(id: number, filter: AuditFilter): AsyncGenerator<AuditLine[]> {
    const query = matching(filter).orderBy('id').limit(BATCH)
    for (let last = id; ; ) {
      const rows = await query.where('id', '>', last).execute()
      const latest = rows.at(-1)
      if (!latest) return
      yield rows.map(lineOf)
      last = latest.id
    }
  }

  /** Returns the highest id of an event; 0 if there is none. */
  async function lastId(): Promise<number> {
    const row = await kysely
      .selectFrom('audit_events')
      .select('id')
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirst()
    return row?.id ?? 0
  }

  return {
    list,

    /**
     * Yields the events, and then new ones as they are committed, without end.
     *
     * On PostgreSQL an event can be committed after one with a higher id. So the latest ids are read again until they are
     * older than `SETTLED` milliseconds, and those that were yielded are skipped.
     *
     * @param wait called before each look for new events
     */
    async *follow(filter: AuditFilter, wait: () => Promise<void>): AsyncGenerator<AuditLine[]> {
      const yielded = new Set<number>()
      const fresh = (lines: AuditLine[]) => lines.filter(({ id }) => !yielded.has(id))
      const settled = await kysely
        .selectFrom('audit_events')
        .select('id')
        .where('time', '<', Date.now() - SETTLED)
        .orderBy('time', 'desc')
        .orderBy('id', 'desc')
        .limit(1)
        .executeTakeFirst()
      let floor = settled?.id ?? 0
      const heights: { id: number; at: number }[] = []
      for (let source = list(filter); ; source = after(floor, filter)) {
        heights.push({ id: await lastId(), at: performance.now() })
        for await (const lines of source) {
          const found = fresh(lines)
          for (const { id } of found) if (id > floor) yielded.add(id)
          if (found.length > 0) yield found
        }
        while ((heights[0]?.at ?? Number.POSITIVE_INFINITY) < performance.now() - SETTLED)
          floor = heights.shift()?.id ?? floor
        for (const id of yielded) if (id <= floor) yielded.delete(id)
        await wait()
      }
    },

    /** Returns a user's latest events, newest first. @param before from an earlier page: the time and id of its last event */
    async latest(
      user: { id: number; name: string },
      count: number,
      before?: { time: number; id: number },
    ): Promise<AuditLine[]> {
      let query = kysely
        .selectFrom('audit_events')
        .selectAll()
        .where('user_key', '=', nameKey(user.name))
        .where('user_id', '=', user.id)
      if (before) query = query.where(sql<boolean>`(time, id) < (${before.time}, ${before.id})`)
      const rows = await query.orderBy('time', 'desc').orderBy('id', 'desc').limit(count).execute()
      return rows.map(lineOf)
    },

    /** Removes events before a time and records that. @param before milliseconds since the epoch @returns how many */
    async prune(before: number, onBatch: () => Promise<void> = async () => {}): Promise<number> {
      let removed = 0
      for (;;) {
        const count = await audit.transaction(async (db, record) => {
          const { numDeletedRows } = await db
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
            await record({
              by: ADMINISTRATOR,
              action: 'audit.pruned',
              details: { before: new Date(before).toISOString() },
            })
          return Number(numDeletedRows)
        })
        removed += count
        if (count < BATCH) return removed
        await onBatch()
      }
    },
  }
}
