import { sql } from 'kysely'
import { type Engine, StoreUnavailable } from '../engine.ts'
import { DELETE_STEP } from '../steps.ts'
import { inMilliseconds, type Milliseconds } from '../time.ts'
import type { FailureLimits } from './failures.ts'

/** Maximum number of live rows. Beyond it, those that end soonest are removed. */
const MAX_ROWS = 100_000
/** Number of new addresses between two trims, because counting rows for each is too slow. */
const INTERVAL = 100
/**
 * Milliseconds. Rows whose end is later than any window allows by more than this are removed. `now`
 * is when a statement began: one that then waited for locks meets rows of later statements, whose
 * windows rightly end after `now` and a window.
 */
const SET_BACK: Milliseconds = 60_000

/**
 * Creates a function that trims the table now and then: removes rows that have ended, and surplus
 * ones. Call it for each address that may be new.
 */
export function createTrimming({ kysely, dialect }: Engine) {
  // A subquery is computed once: for each of 100,000 rows it takes PostgreSQL 0.2 s.
  const now = sql<number>`(select ${sql.raw(dialect.now)})`
  const columns = ['address', 'ends_at', 'reserved_until'] as const
  const rows = kysely.selectFrom('auth_failures').select(columns)
  let addedUntilTrim = 0

  // A step at a time, since all at once would keep others from writing. It is more than was added.
  // Also compares the times: PostgreSQL re-evaluates the condition for a row that was updated
  // concurrently, and one whose window or reservation has begun meanwhile stays.
  const remove = (some: typeof rows, limit = DELETE_STEP) =>
    kysely
      .deleteFrom('auth_failures')
      .where(({ eb, refTuple }) => eb(refTuple(...columns), 'in', some.limit(limit).$asTuple(...columns)))
      .execute()

  async function trim({ window }: FailureLimits): Promise<void> {
    await remove(
      rows.where((eb) =>
        eb.or([
          eb.and([eb('ends_at', '<=', now), eb('reserved_until', '<=', now)]),
          eb('ends_at', '>', sql<number>`${now} + ${inMilliseconds(window) + SET_BACK}`),
        ]),
      ),
    )
    const { count } = await kysely
      .selectFrom('auth_failures')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
    const surplus = count - (MAX_ROWS - INTERVAL)
    if (surplus > 0) await remove(rows.orderBy('ends_at'), Math.min(surplus, DELETE_STEP))
  }

  return async (limits: FailureLimits): Promise<void> => {
    if (--addedUntilTrim >= 0) return
    addedUntilTrim = INTERVAL
    // What was counted or reserved stands: the next new address tries again.
    await trim(limits).catch((error: unknown) => {
      addedUntilTrim = 0
      if (!(error instanceof StoreUnavailable)) throw error
    })
  }
}
