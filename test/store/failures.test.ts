import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { Client } from 'pg'
import { type Test, test } from 'tap'
import { RESERVATION_LIFETIME } from '../../src/store/failures/statements.ts'
import { openEngine, openStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, postgres, type TestDatabase } from '../helpers/databases.ts'
import { until } from '../helpers/until.ts'

/** Seconds. */
const WINDOW = 300
const A = '192.0.2.1'
const B = '192.0.2.2'

/** Returns limits with the window of these tests. */
const upTo = (limit: number, window = WINDOW) => ({ limit, window })

async function setUp(t: Test, database: TestDatabase) {
  const { store, options } = await openTestStore(t, database, { statementTimeout: false })
  const engine = await openEngine(options)
  t.teardown(() => engine.close())
  /** Runs a statement and returns its rows. */
  const query = async (text: string) =>
    (await sql.raw<Record<string, unknown>>(text).execute(engine.kysely)).rows
  const lift = (address: string) => asAdministrator(store).failures.lift(address)
  return { failures: store.failures, lift, query }
}

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('concurrent failures get consecutive numbers, up to the limit', async (t) => {
      const { failures } = await setUp(t, database)
      t.equal(await failures.find(A), null)
      const counted = await Promise.all(Array.from({ length: 40 }, () => failures.count(A, upTo(30))))
      const found = counted.flatMap((one) => one ?? [])
      t.same(
        found.map((one) => one.failures).sort((a, b) => a - b),
        Array.from({ length: 30 }, (_, index) => index + 1),
      )
      for (const { endsIn } of found) t.ok(endsIn > 1000 * (WINDOW - 60) && endsIn <= 1000 * WINDOW)
      t.match(await failures.find(A), { failures: 30 })
      t.equal(await failures.find(B), null)
    })

    t.test('a window begins with the first failure; after its end counting starts again', async (t) => {
      const { failures } = await setUp(t, database)
      const limits = upTo(9, 5)
      const first = await failures.count(A, limits)
      const second = await failures.count(A, limits)
      t.equal(second?.failures, 2)
      t.ok(Number(second?.endsIn) <= Number(first?.endsIn), 'a later failure does not lengthen it')
      let current = await failures.find(A)
      while (current) {
        await setTimeout(50)
        current = await failures.find(A)
      }
      t.match(await failures.count(A, limits), { failures: 1 })
    })

    t.test('blocked addresses are listed and can be unblocked', async (t) => {
      const { failures, lift } = await setUp(t, database)
      await failures.count(A, upTo(2))
      for (const _ of [1, 2]) await failures.count(B, upTo(2, WINDOW - 60))
      for (const _ of [1, 2]) await failures.count('2001:db8::/64', upTo(2))
      t.match(await failures.list(upTo(2)), [
        { address: '2001:db8::/64', failures: 2 },
        { address: B, failures: 2 },
      ])
      t.equal(await failures.countBlocked(upTo(2)), 2)
      t.equal(await lift(B), true)
      t.equal(await lift(B), false)
      t.match(await failures.list(upTo(2)), [{ address: '2001:db8::/64' }])
      t.match(await failures.count(B, upTo(2)), { failures: 1 }, 'counting starts again')
    })

    t.test('concurrent reservations never exceed the limit', async (t) => {
      const { failures } = await setUp(t, database)
      await failures.count(A, upTo(30))
      const asked = await Promise.all(Array.from({ length: 60 }, () => failures.reserve(A, upTo(30))))
      const granted = asked.flatMap((one) => one ?? [])
      t.equal(granted.length, 29)
      t.equal(await failures.count(A, upTo(30)), null, 'no room for a failure either')
      t.match(await failures.find(A), { failures: 1 }, 'reservations are not failures')
      t.not(await failures.reserve(B, upTo(30)), null, 'another address has its own budget')

      const outcomes = await Promise.all(granted.slice(9).map((one) => one.fail({ at: 'sign-in' })))
      t.same(
        outcomes.map((one) => one?.failures).sort((a, b) => Number(a) - Number(b)),
        Array.from({ length: 20 }, (_, index) => index + 2),
      )
      t.equal(await failures.reserve(A, upTo(30)), null, 'a failure takes the place of its reservation')
      await Promise.all(granted.slice(0, 9).map((one) => one.release()))
      const later = await Promise.all(Array.from({ length: 20 }, () => failures.reserve(A, upTo(30))))
      t.equal(later.flatMap((one) => one ?? []).length, 9, 'released places can be reserved again')
    })

    t.test('a reservation begins no window, and survives the end of one', async (t) => {
      const { failures, query } = await setUp(t, database)
      const reservation = await failures.reserve(A, upTo(2))
      t.equal(await failures.find(A), null)
      await failures.count(A, upTo(2))
      t.equal(await failures.reserve(A, upTo(2)), null)
      await query(`update auth_failures set ends_at = ${Date.now()}`)
      t.equal(await failures.find(A), null)
      t.not(await failures.reserve(A, upTo(2)), null, 'one place is free again')
      t.equal(await failures.reserve(A, upTo(2)), null, 'the other one is still reserved')
      const failed = await reservation?.fail({ at: 'sign-in' })
      t.equal(failed?.failures, 1)
      t.ok(Number(failed?.endsIn) > 1000 * (WINDOW - 60), 'its window begins with this failure')
    })

    t.test('the reservation of a crashed process expires', async (t) => {
      const { failures, query } = await setUp(t, database)
      const reservation = await failures.reserve(A, upTo(1))
      const [row] = await query('select reserved_until from auth_failures')
      const left = Number(row?.reserved_until) - Date.now()
      t.ok(left > RESERVATION_LIFETIME - 30_000 && left <= RESERVATION_LIFETIME)
      t.equal(await failures.reserve(A, upTo(1)), null)
      await query(`update auth_failures set reserved_until = ${Date.now()}`)
      t.not(await failures.reserve(A, upTo(1)), null)
      t.equal(await failures.reserve(A, upTo(1)), null)

      // The process was only suspended.
      const start = performance.now()
      t.capture(performance, 'now', () => start + RESERVATION_LIFETIME + 1)
      await reservation?.release()
      t.equal(
        await failures.reserve(A, upTo(1)),
        null,
        'an expired reservation does not release that of another attempt',
      )
      t.equal(await reservation?.fail({ at: 'sign-in' }), null, 'nor does it take its place as a failure')
    })

    t.test('unblocking an address keeps its reservations', async (t) => {
      const { failures, lift } = await setUp(t, database)
      await failures.count(A, upTo(2))
      const reservation = await failures.reserve(A, upTo(2))
      await lift(A)
      t.not(await failures.reserve(A, upTo(2)), null)
      t.equal(await failures.reserve(A, upTo(2)), null)
      await reservation?.release()
      t.match(await failures.count(A, upTo(2)), { failures: 1 })
      t.equal(await lift(B), false)
    })

    t.test('removes rows whose window has ended and that have no reservations', async (t) => {
      const { failures, query } = await setUp(t, database)
      const now = Date.now()
      const rows = {
        ended: [now - 1, 0, 0],
        'ended, with a reservation that expired': [now - 1, 1, now - 1],
        'ended, with a reservation': [now - 1, 1, now + 30_000],
        current: [now + 60_000, 0, 0],
        'of a clock that was set back': [now + 86_700_000, 0, 0],
      }
      for (const [address, values] of Object.entries(rows)) {
        await query(`insert into auth_failures (address, failures, ends_at, reserved, reserved_until)
          values ('${address}', 1, ${values.join()})`)
      }
      await failures.count(A, upTo(30))
      const left = await query('select address from auth_failures order by address')
      t.same(
        left.map(({ address }) => address),
        [A, 'current', 'ended, with a reservation'],
      )
    })

    t.test('removes many rows in steps, between which others can write', async (t) => {
      const { failures, query } = await setUp(t, database)
      await query(`with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < 6000)
        insert into auth_failures (address, failures, ends_at) select 'a' || i, 1, 1 from numbers`)
      const left = async () => (await query('select address from auth_failures')).length
      let counted = 0
      // Where a busy database took too long, the next new address tries again.
      do await failures.count(`192.0.2.${++counted}`, upTo(30))
      while (counted < 5 && (await left()) > 6_000)
      t.equal((await left()) - counted, 1_000, 'at most 5,000 at a time')
    })

    t.test('of too many addresses, those are forgotten whose windows end first', async (t) => {
      const { failures, query } = await setUp(t, database)
      const rows = 100_000
      const end = Date.now() + 200_000
      await query(`with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < ${rows})
        insert into auth_failures (address, failures, ends_at) select 'a' || i, 1, ${end} - i from numbers`)
      const left = async () =>
        (await query('select count(*) as rows, min(ends_at) as soonest from auth_failures'))[0]
      let counted = 0
      do await failures.count(`192.0.2.${++counted}`, upTo(30))
      while (counted < 5 && Number((await left())?.rows) > rows)
      const { rows: kept, soonest } = (await left()) ?? {}
      t.ok(Number(kept) < rows)
      t.ok(end - Number(soonest) <= Number(kept), 'those that end last are left')
    })

    t.test('a window ends if the clock was set back', async (t) => {
      const { failures, query } = await setUp(t, database)
      const later = Date.now() + 86_700_000
      const write = (address: string) =>
        query(`insert into auth_failures (address, failures, ends_at, reserved, reserved_until)
          values ('${address}', 2, ${later}, 2, ${later + RESERVATION_LIFETIME})`)
      for (const address of [A, B]) await write(address)
      t.same(await failures.list(upTo(2)), [])
      t.equal(await failures.countBlocked(upTo(2)), 0)
      const counted = await failures.count(A, upTo(2))
      t.equal(counted?.failures, 1)
      t.ok(Number(counted?.endsIn) <= 1000 * WINDOW)
      t.not(await failures.reserve(B, upTo(1)), null)
      t.equal(await failures.reserve(B, upTo(1)), null)
      t.equal(await failures.find(B), null)
    })
  })
}

for (const attempt of ['count', 'reserve'] as const)
  test(`PostgreSQL: a row that another instance trims stays if it begins again (${attempt})`, async (t) => {
    const { store, options } = await openTestStore(t, postgres)
    const other = await openStore(options)
    t.teardown(() => other.close())
    const url = options.databaseUrl ?? ''
    const client = new Client({ connectionString: url })
    await client.connect()
    t.teardown(() => client.end())
    const watcher = new Client({ connectionString: url })
    await watcher.connect()
    t.teardown(() => watcher.end())
    const untilWaiting = (count: number) =>
      until(async () => {
        const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        return (await watcher.query(waiting)).rowCount === count
      })
    await client.query(`insert into auth_failures (address, failures, ends_at) values ('${A}', 30, 1)`)
    await client.query('begin')
    await client.query(`select from auth_failures for update`)
    const begun = store.failures[attempt](A, upTo(1))
    // Awaited below.
    begun.catch(() => {})
    await untilWaiting(1)
    // The first new address trims.
    const trimmed = other.failures.count(B, upTo(30))
    await untilWaiting(2)
    await client.query('rollback')
    t.not(await begun, null)
    t.match(await trimmed, { failures: 1 })
    t.equal(await store.failures.reserve(A, upTo(1)), null, 'its place is taken')
  })
