import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'
import { prepare } from '../prepared.ts'
import type { Tables } from '../tables.ts'
import type { Milliseconds } from '../time.ts'
import { failureColumns } from './failures.ts'

/** What a statement takes that compares an address with its limits. */
interface Limited {
  address: string
  limit: number
  window: Milliseconds
}

/** A failure, and how many reservations it takes the place of. */
type Counted = Limited & { returned: number }

/**
 * Milliseconds until a reservation expires because its process has crashed. Finding a user,
 * comparing a password or asking an OpenID Connect provider, and writing the outcome takes less
 * than 20 seconds at worst.
 */
export const RESERVATION_LIFETIME: Milliseconds = 60_000

/**
 * Returns the statements that read and change the row of an address.
 *
 * A window ends at `ends_at`. It has also ended when `ends_at` is further away than the length of a
 * window, because then the clock was set back. A row without failures has no window.
 *
 * All reservations of a row expire together, `RESERVATION_LIFETIME` after the latest one. The
 * reservation of a crashed process can therefore take up room for longer than that, but only while
 * other attempts still find room: without room no attempt extends it.
 */
export function failureStatements({ kysely, dialect }: Engine) {
  const now = sql<number>`${sql.raw(dialect.now)}`
  // Where a statement compares times that another one may have written while it waited for the
  // row's lock.
  const clock = sql<number>`${sql.raw(dialect.clock)}`
  const lifetime = sql.lit(RESERVATION_LIFETIME)

  /** The failures of the current window, before the statement. */
  const failures = (window: Milliseconds) =>
    sql<number>`case when auth_failures.ends_at <= ${now} or auth_failures.ends_at > ${clock} + ${window}
      then 0 else auth_failures.failures end`
  /** The end of the window: that of the row to insert if there is none. */
  const endsAt = (window: Milliseconds) =>
    sql<number>`case when ${failures(window)} = 0 then excluded.ends_at else auth_failures.ends_at end`
  /** The reservations that have not expired, before the statement. */
  const reserved = sql<number>`case when auth_failures.reserved_until > ${now}
    and auth_failures.reserved_until <= ${clock} + ${lifetime} then auth_failures.reserved else 0 end`
  const reservedAfter = (returned: number) =>
    sql<number>`${sql.raw(dialect.greatest)}(${reserved} - ${returned}, 0)`

  /** Counts a failure if there is room for it. It begins a window, or does not lengthen that. */
  const count = (db: Kysely<Tables>, p: Counted) =>
    db
      .insertInto('auth_failures')
      .values({ address: p.address, failures: 1, ends_at: sql<number>`${now} + ${p.window}` })
      .onConflict((conflict) =>
        conflict
          .column('address')
          .doUpdateSet({
            failures: sql<number>`${failures(p.window)} + 1`,
            ends_at: endsAt(p.window),
            reserved: reservedAfter(p.returned),
          })
          .where(sql<boolean>`${failures(p.window)} + ${reservedAfter(p.returned)} < ${p.limit}`),
      )
      .returning(failureColumns(dialect))

  return {
    countIn: count,
    count: prepare<Counted>()((p) => count(kysely, p)),

    /** Finds failures of the current window. */
    find: prepare<{ address: string }>()((p) =>
      kysely
        .selectFrom('auth_failures')
        .select(failureColumns(dialect))
        .where('address', '=', p.address)
        .where('ends_at', '>', now),
    ),

    /** Reserves a place if there is one. */
    reserve: prepare<Limited>()((p) =>
      kysely
        .insertInto('auth_failures')
        .values({
          address: p.address,
          failures: 0,
          ends_at: now,
          reserved: 1,
          reserved_until: sql<number>`${now} + ${lifetime}`,
        })
        .onConflict((conflict) =>
          conflict
            .column('address')
            .doUpdateSet({
              failures: failures(p.window),
              ends_at: endsAt(p.window),
              reserved: sql<number>`${reserved} + 1`,
              reserved_until: sql<number>`${clock} + ${lifetime}`,
            })
            .where(sql<boolean>`${failures(p.window)} + ${reserved} < ${p.limit}`),
        )
        .returning(['failures', 'reserved']),
    ),

    release: prepare<{ address: string }>()((p) =>
      kysely
        .updateTable('auth_failures')
        .set({ reserved: reservedAfter(1) })
        .where('address', '=', p.address),
    ),
  }
}
