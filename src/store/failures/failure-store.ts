import { sql } from 'kysely'
import type { Administrator } from '../../domain/actors.ts'
import type { Audit, Change } from '../audit/change.ts'
import type { Engine } from '../engine.ts'
import { inMilliseconds, type Milliseconds } from '../time.ts'
import {
  accessKey,
  type FailedAttempt,
  type FailureLimits,
  type Failures,
  failureColumns,
} from './failures.ts'
import { failureStatements, RESERVATION_LIFETIME } from './statements.ts'
import { createTrimming } from './trim.ts'

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
 * window. When a row's window and reservations end: see `failureStatements`.
 */
export function createFailureStore(engine: Engine, audit: Audit) {
  const { kysely, dialect } = engine
  const statements = failureStatements(engine)
  const trimFor = createTrimming(engine)
  const now = sql<number>`${sql.raw(dialect.now)}`

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
    const { limit, window } = limits
    const counted = { address, returned, window: inMilliseconds(window), limit }
    const [before] =
      limit > 1
        ? await engine.write(statements.count, { ...counted, limit: limit - 1 }, accessKey(address))
        : []
    const row =
      before ??
      (await audit.transaction({ kind: 'anonymous', address }, async (change) => {
        const last = await statements.countIn(change.db, counted).executeTakeFirst()
        if (last?.failures !== limit) return last
        await change.record({
          action: 'address.blocked',
          object: address,
          ...(attempt.user && { subject: attempt.user }),
          details: { failures: limit, window, after: attempt.at },
        })
        return last
      }))
    if (!row) return null
    if (row.failures === 1 && returned === 0) await trimFor(limits)
    return row
  }

  /** Selects the addresses that have spent their budget. */
  const blocked = ({ limit, window }: FailureLimits) =>
    kysely
      .selectFrom('auth_failures')
      .where('ends_at', '>', now)
      .where('ends_at', '<=', sql<number>`${now} + ${inMilliseconds(window)}`)
      .where('failures', '>=', limit)

  return {
    /**
     * Returns the failures of the address's window. `endsIn` exceeds a window when the clock was
     * set back.
     */
    async find(address: string): Promise<Failures | null> {
      const [row] = await engine.read(statements.find, { address })
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
      const limited = { address, limit: limits.limit, window: inMilliseconds(limits.window) }
      const [row] = await engine.write(statements.reserve, limited, accessKey(address))
      if (!row) return null
      if (row.failures === 0 && row.reserved === 1) await trimFor(limits)
      // Once it has expired, the place may belong to another attempt.
      const isHeld = () => performance.now() - since < RESERVATION_LIFETIME
      return {
        fail: (attempt) => countFailure(address, limits, attempt, isHeld() ? 1 : 0),
        async release() {
          if (isHeld()) await engine.write(statements.release, { address }, accessKey(address))
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
