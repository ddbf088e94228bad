import { type Kysely, sql } from 'kysely'
import type { Administrator } from '../../domain/actors.ts'
import type { Audit, Change } from '../audit/change.ts'
import { type DialectSql, type Engine, StoreUnavailable } from '../engine.ts'
import { prepare } from '../prepared.ts'
import { DELETE_STEP } from '../steps.ts'
import type { Tables } from '../tables.ts'
import { inMilliseconds, type Milliseconds, type Seconds } from '../time.ts'

/** Failed attempts of one address in its current window. */
export interface Failures {
  failures: number
  /** How long until the window ends. */
  endsIn: Milliseconds
}

/** Limits of one address, the same in every process. */
export interface FailureLimits {
  /** Failures in one window. */
  limit: number
  /** Length of a window. It starts with the address's first failure. */
  window: Seconds
}

/** The same, as statements take them. */
interface StatementLimits {
  limit: number
  window: Milliseconds
}

/** What a failed attempt was an attempt at. */
export interface FailedAttempt {
  at: 'token' | 'sign-in' | 'password' | 'metrics'
  /** The existing user whose password was tried. */
  user?: { id: number; name: string } | undefined
}

/** A place in an address's budget, held while a secret is compared. */
export interface Reservation {
  /**
   * Turns the reservation into a failure.
   *
   * @returns null: it has expired, and the budget has no room left
   */
  fail(attempt: FailedAttempt): Promise<Failures | null>
  /** Releases the reservation. */
  release(): Promise<void>
}

/** Maximum number of live rows. Beyond it, those that end soonest are removed. */
const MAX_ROWS = 100_000
/** Number of new addresses between two trims, because counting rows for each is too slow. */
const TRIM_INTERVAL = 100
/**
 * Milliseconds until a reservation expires because its process has crashed. Finding a user,
 * comparing a password or asking an OpenID Connect provider, and writing the outcome takes less
 * than 20 seconds at worst.
 */
export const RESERVATION_LIFETIME: Milliseconds = 60_000
/**
 * Milliseconds. Rows whose end is later than any window allows by more than this are removed. `now`
 * is when a statement began: one that then waited for locks meets rows of later statements, whose
 * windows rightly end after `now` and a window.
 */
const SET_BACK: Milliseconds = 60_000

/**
 * Returns the cache key of what requests of an address read about its failures and their access.
 */
export function accessKey(address: string): string {
  return `access ${address}`
}

/** Selects the failures of an address's window, and how much of it is left. */
export function failureColumns(dialect: DialectSql) {
  return [
    'auth_failures.failures' as const,
    sql<number>`auth_failures.ends_at - ${sql.raw(dialect.now)}`.as('endsIn'),
  ] as const
}

/**
 * Returns functions that count failed authentication attempts by address in the database, so that
 * all processes share them.
 *
 * The row of an address holds its failures and its reservations, so that one statement compares
 * their sum with the limit and changes it:
 *
 * ```
 *             failures + reservations < limit
 *   attempt ───────────────────────────────────▶ reserved ──┬── wrong ───▶ failure
 *      │                                                    ├── right ───▶ released
 *      └── otherwise: nothing changes                       └── crash ───▶ expired
 * ```
 *
 * Invariant: failures + reservations <= limit, so at most `limit` wrong secrets are compared in a
 * window.
 *
 * A window ends at `ends_at`. It has also ended when `ends_at` is further away than the length of a
 * window, because then the clock was set back. A row without failures has no window.
 *
 * All reservations of a row expire together, `RESERVATION_LIFETIME` after the latest one. The
 * reservation of a crashed process can therefore take up room for longer than that, but only while
 * other attempts still find room: without room no attempt extends it.
 */
export function createFailureStore(engine: Engine, audit: Audit) {
  const { kysely, dialect } = engine
  const now = sql<number>`${sql.raw(dialect.now)}`
  // Where a statement compares times that another one may have written while it waited for the
  // row's lock.
  const clock = sql<number>`${sql.raw(dialect.clock)}`
  let addedUntilTrim = 0

  const current = prepare<{ address: string }>()((p) =>
    kysely
      .selectFrom('auth_failures')
      .select(failureColumns(dialect))
      .where('address', '=', p.address)
      .where('ends_at', '>', now),
  )

  const lifetime = sql.lit(RESERVATION_LIFETIME)
  const greatest = sql.raw(dialect.greatest)
  const hasEnded = (window: Milliseconds) =>
    sql`(auth_failures.ends_at <= ${now} or auth_failures.ends_at > ${clock} + ${window})`
  const reserved = sql`case when auth_failures.reserved_until > ${now} and auth_failures.reserved_until <= ${clock} + ${lifetime}
    then auth_failures.reserved else 0 end`

  // The window begins with the first failure, and a later one does not lengthen it.
  const countOn = (db: Kysely<Tables>, p: StatementLimits & { address: string; returned: number }) =>
    db
      .insertInto('auth_failures')
      .values({ address: p.address, failures: 1, ends_at: sql<number>`${now} + ${p.window}` })
      .onConflict((conflict) =>
        conflict
          .column('address')
          .doUpdateSet({
            failures: sql<number>`case when ${hasEnded(p.window)} then 1 else auth_failures.failures + 1 end`,
            ends_at: sql<number>`case when ${hasEnded(p.window)} or auth_failures.failures = 0 then excluded.ends_at
              else auth_failures.ends_at end`,
            reserved: sql<number>`${greatest}(${reserved} - ${p.returned}, 0)`,
          })
          .where(
            sql<boolean>`case when ${hasEnded(p.window)} then 0 else auth_failures.failures end
              + ${greatest}(${reserved} - ${p.returned}, 0) < ${p.limit}`,
          ),
      )
      .returning(failureColumns(dialect))
  const count = prepare<StatementLimits & { address: string; returned: number }>()((p) => countOn(kysely, p))

  const reserve = prepare<StatementLimits & { address: string }>()((p) =>
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
            failures: sql<number>`case when ${hasEnded(p.window)} then 0 else auth_failures.failures end`,
            ends_at: sql<number>`case when ${hasEnded(p.window)} then excluded.ends_at else auth_failures.ends_at end`,
            reserved: sql<number>`${reserved} + 1`,
            reserved_until: sql<number>`${clock} + ${lifetime}`,
          })
          .where(
            sql<boolean>`case when ${hasEnded(p.window)} then 0 else auth_failures.failures end + ${reserved} < ${p.limit}`,
          ),
      )
      .returning(['failures', 'reserved']),
  )

  const release = prepare<{ address: string }>()((p) =>
    kysely
      .updateTable('auth_failures')
      .set({ reserved: sql<number>`${greatest}(${reserved} - 1, 0)` })
      .where('address', '=', p.address),
  )

  const blocked = ({ limit, window }: FailureLimits) =>
    kysely
      .selectFrom('auth_failures')
      .where('ends_at', '>', now)
      .where('ends_at', '<=', sql<number>`${now} + ${inMilliseconds(window)}`)
      .where('failures', '>=', limit)

  /** Removes rows that have ended, and surplus ones. */
  async function trim({ window }: FailureLimits): Promise<void> {
    const addresses = kysely.selectFrom('auth_failures').select('address')
    // A step at a time, since all at once would keep others from writing. It is more than was added.
    const remove = (some: typeof addresses, limit = DELETE_STEP) =>
      kysely.deleteFrom('auth_failures').where('address', 'in', some.limit(limit)).execute()
    await remove(
      addresses.where((eb) =>
        eb.or([
          eb.and([eb('ends_at', '<=', now), eb('reserved_until', '<=', now)]),
          eb('ends_at', '>', sql<number>`${now} + ${inMilliseconds(window) + SET_BACK}`),
        ]),
      ),
    )
    const { rows } = await kysely
      .selectFrom('auth_failures')
      .select((eb) => eb.fn.countAll<number>().as('rows'))
      .executeTakeFirstOrThrow()
    const surplus = rows - (MAX_ROWS - TRIM_INTERVAL)
    if (surplus > 0) await remove(addresses.orderBy('ends_at'), Math.min(surplus, DELETE_STEP))
  }

  /** Trims the table now and then. Called for each address that may be new. */
  async function added(limits: FailureLimits): Promise<void> {
    if (--addedUntilTrim >= 0) return
    addedUntilTrim = TRIM_INTERVAL
    // What was counted or reserved stands: the next new address tries again.
    await trim(limits).catch((error: unknown) => {
      addedUntilTrim = 0
      if (!(error instanceof StoreUnavailable)) throw error
    })
  }

  /**
   * Counts a failure. The one that spends the budget is counted in a transaction with the event of
   * that.
   */
  async function countFailure(
    address: string,
    limits: FailureLimits,
    attempt: FailedAttempt,
    returned: 0 | 1,
  ): Promise<Failures | null> {
    const { limit, window } = forStatement(limits)
    const params = { address, returned, window }
    const [before] =
      limit > 1 ? await engine.write(count, { ...params, limit: limit - 1 }, accessKey(address)) : []
    const row =
      before ??
      (await audit.transaction({ kind: 'anonymous', address }, async (change) => {
        const last = await countOn(change.db, { ...params, limit }).executeTakeFirst()
        if (last?.failures !== limit) return last
        await change.record({
          action: 'address.blocked',
          object: address,
          ...(attempt.user && { subject: attempt.user }),
          details: { failures: limit, window: limits.window, after: attempt.at },
        })
        return last
      }))
    if (!row) return null
    if (row.failures === 1 && returned === 0) await added(limits)
    return row
  }

  return {
    /**
     * Returns the failures of the address's window. `endsIn` exceeds a window when the clock was
     * set back.
     */
    async find(address: string): Promise<Failures | null> {
      const [row] = await engine.read(current, { address })
      return row ?? null
    },

    /**
     * Counts one failure, atomically: concurrent failures get consecutive numbers.
     *
     * @returns null: failures and reservations leave no room, and nothing was counted
     */
    count: (address: string, limits: FailureLimits, attempt: FailedAttempt = { at: 'token' }) =>
      countFailure(address, limits, attempt, 0),

    /**
     * Reserves a place in the address's budget, atomically.
     *
     * @returns null: failures and reservations leave no room
     */
    async reserve(address: string, limits: FailureLimits): Promise<Reservation | null> {
      const since = performance.now()
      const [row] = await engine.write(reserve, { address, ...forStatement(limits) }, accessKey(address))
      if (!row) return null
      if (row.failures === 0 && row.reserved === 1) await added(limits)
      // Once it has expired, the place may belong to another attempt.
      const isHeld = () => performance.now() - since < RESERVATION_LIFETIME
      return {
        fail: (attempt) => countFailure(address, limits, attempt, isHeld() ? 1 : 0),
        async release() {
          if (isHeld()) await engine.write(release, { address }, accessKey(address))
        },
      }
    },

    /** Returns addresses with `limit` failures in their window, the one that ends last first. */
    list(limits: FailureLimits): Promise<(Failures & { address: string; endsAt: Milliseconds })[]> {
      return blocked(limits)
        .select(['address', 'ends_at as endsAt', ...failureColumns(dialect)])
        .orderBy('ends_at', 'desc')
        .execute()
    },

    /** Returns how many addresses have `limit` failures in their window. */
    async countBlocked(limits: FailureLimits): Promise<number> {
      const { rows } = await blocked(limits)
        .select((eb) => eb.fn.countAll<number>().as('rows'))
        .executeTakeFirstOrThrow()
      return rows
    },

    /**
     * Forgets the address's failures; attempts in progress keep their reservations.
     *
     * @returns whether there were any failures
     */
    async lift(change: Change<Administrator>, address: string): Promise<boolean> {
      const lifted = await change.db
        .updateTable('auth_failures')
        .set({ failures: 0, ends_at: now })
        .where('address', '=', address)
        .where('failures', '>', 0)
        .returning('address')
        .executeTakeFirst()
      if (!lifted) return false
      await change.record({ action: 'address.lifted', object: address, details: {} })
      return true
    },
  }
}

function forStatement({ limit, window }: FailureLimits): StatementLimits {
  return { limit, window: inMilliseconds(window) }
}
