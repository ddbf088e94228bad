import { sql } from 'kysely'
import type { Engine, Flavor } from './engine.ts'
import { prepare } from './prepared.ts'

/** Failed attempts of one address in its current window. */
export interface Failures {
  failures: number
  /** Milliseconds until the window ends. */
  endsIn: number
}

/** Live rows at most; beyond that the ones that end soonest go. */
const MOST = 100_000
/** A process makes room for so many new addresses at once, since counting rows is too slow to do for each. */
const ROOM = 100

/** Names what is remembered of a request's rights where the address's failures are looked up along the way. */
export function accessKey(address: string): string {
  return `access ${address}`
}

/** What is left of an address's window and what was counted in it. */
export function failureColumns(flavor: Flavor) {
  return [
    'auth_failures.failures' as const,
    sql<number>`auth_failures.ends_at - ${sql.raw(flavor.now)}`.as('ends_in'),
  ] as const
}

/** Failed authentication attempts by address, counted by the database, so that all processes share them. */
export function failureStore(engine: Engine) {
  const { kysely, flavor } = engine
  const now = sql<number>`${sql.raw(flavor.now)}`
  let addedUntilTrim = 0

  const current = prepare<{ address: string }>()((p) =>
    kysely
      .selectFrom('auth_failures')
      .select(failureColumns(flavor))
      .where('address', '=', p.address)
      .where('ends_at', '>', now),
  )

  // The window begins with the first failure, and a later one does not lengthen it.
  const over = sql<boolean>`auth_failures.ends_at <= ${now}`
  const count = prepare<{ address: string; window: number }>()((p) =>
    kysely
      .insertInto('auth_failures')
      .values({ address: p.address, failures: 1, ends_at: sql<number>`${now} + ${p.window}` })
      .onConflict((conflict) =>
        conflict.column('address').doUpdateSet({
          failures: sql<number>`case when ${over} then 1 else auth_failures.failures + 1 end`,
          ends_at: sql<number>`case when ${over} then excluded.ends_at else auth_failures.ends_at end`,
        }),
      )
      .returning(failureColumns(flavor)),
  )

  const removeExpired = () => kysely.deleteFrom('auth_failures').where('ends_at', '<=', now).execute()

  /** Removes what has ended, and what is too much. */
  async function trim(): Promise<void> {
    await removeExpired()
    const { rows } = await kysely
      .selectFrom('auth_failures')
      .select((eb) => eb.fn.countAll<number>().as('rows'))
      .executeTakeFirstOrThrow()
    const surplus = Number(rows) - (MOST - ROOM)
    if (surplus <= 0) return
    await kysely
      .deleteFrom('auth_failures')
      .where('address', 'in', (eb) =>
        eb.selectFrom('auth_failures').select('address').orderBy('ends_at').limit(surplus),
      )
      .execute()
  }

  return {
    /** What was counted in the address's current window, if it has one. */
    async find(address: string): Promise<Failures | null> {
      const [row] = await engine.read(current, { address })
      return row ? { failures: row.failures, endsIn: row.ends_in } : null
    },

    /**
     * Counts one failure, atomically: of any number that come at once, each gets a number of its own.
     *
     * @param window milliseconds
     */
    async count(address: string, window: number): Promise<Failures> {
      const [row] = await engine.write(count, { address, window }, accessKey(address))
      if (!row) throw new Error('one row was asked for')
      if (row.failures === 1 && --addedUntilTrim < 0) {
        addedUntilTrim = ROOM
        await trim()
      }
      return { failures: row.failures, endsIn: row.ends_in }
    },

    /** Addresses with at least `limit` failures in their window, the one that ends last first. */
    async list(limit: number): Promise<(Failures & { address: string; endsAt: number })[]> {
      const rows = await kysely
        .selectFrom('auth_failures')
        .select(['address', 'ends_at', ...failureColumns(flavor)])
        .where('ends_at', '>', now)
        .where('failures', '>=', limit)
        .orderBy('ends_at', 'desc')
        .execute()
      return rows.map((row) => ({
        address: row.address,
        failures: row.failures,
        endsIn: row.ends_in,
        endsAt: row.ends_at,
      }))
    },

    /** How many addresses have at least `limit` failures in their window. */
    async countFrom(limit: number): Promise<number> {
      const { rows } = await kysely
        .selectFrom('auth_failures')
        .select((eb) => eb.fn.countAll<number>().as('rows'))
        .where('ends_at', '>', now)
        .where('failures', '>=', limit)
        .executeTakeFirstOrThrow()
      return Number(rows)
    },

    /** Forgets the address's failures. @returns whether there were any */
    async lift(address: string): Promise<boolean> {
      const lifted = await kysely
        .deleteFrom('auth_failures')
        .where('address', '=', address)
        .returning('address')
        .execute()
      return lifted.length > 0
    },
  }
}
