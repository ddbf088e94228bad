import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { type Budget, createBudget } from '../../src/auth/budget.ts'
import { BUSY_TIMEOUT } from '../../src/store/sqlite/driver-errors.ts'
import { openEngine, openStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, sqlite, type TestDatabase } from '../helpers/databases.ts'

const A = '192.0.2.1'
const B = '192.0.2.2'
const BLOCKED = { code: 'blocked' }
/** How long to wait before asserting that something has not happened, in milliseconds. */
const SETTLE = 200

/** Creates two budgets on one database, as two processes would. */
async function setUp(t: Test, database: TestDatabase, limit: number) {
  const { store, options } = await openTestStore(t, database)
  const other = await openStore(options)
  t.teardown(() => other.close())
  let blocks = 0
  const events = { blocked: () => blocks++ }
  const [here, there] = [store, other].map(({ failures }) =>
    createBudget(failures, { limit, window: 300 }, events),
  )
  if (!here || !there) throw new Error('both budgets exist')
  const engine = await openEngine(options)
  t.teardown(() => engine.close())
  const query = (text: string) => sql.raw(text).execute(engine.kysely)
  /** Keeps others from the failures, as another process may. Returns a function that ends this. */
  const lock = async () => {
    const [locked, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const held = engine.kysely.connection().execute(async (connection) => {
      await sql.raw(engine.remote ? 'begin; lock table auth_failures' : 'begin exclusive').execute(connection)
      locked.resolve()
      await end.promise
      await sql.raw('commit').execute(connection)
    })
    await locked.promise
    return () => {
      end.resolve()
      return held
    }
  }
  const lift = (address: string) => asAdministrator(store).failures.lift(address)
  return { here, there, failures: store.failures, lift, lock, query, blocks: () => blocks }
}

const signIn = () => ({ at: 'sign-in' }) as const

/** Starts an attempt whose comparison the test settles. */
function hold(budget: Budget, address = A) {
  const { promise, resolve: settle, reject } = Promise.withResolvers<true | null>()
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  let compared = false
  const compare = () => {
    compared = true
    begin()
    return promise
  }
  const outcome = budget.attempt(address, compare, signIn)
  outcome.catch(() => {})
  return { begun, outcome, settle, reject, isCompared: () => compared }
}

t.test('the first attempt that finds the budget spent answers all that wait behind it', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  let reservations = 0
  const reserve: typeof store.failures.reserve = (...args) => {
    reservations++
    return store.failures.reserve(...args)
  }
  const limits = { limit: 1, window: 300 }
  const budget = createBudget({ ...store.failures, reserve }, limits, { blocked() {} })
  const first = hold(budget)
  await first.begun
  const others = Array.from({ length: 20 }, () => hold(budget))
  first.settle(null)
  for (const { outcome } of others) await t.rejects(outcome, BLOCKED)
  t.equal(reservations, 2)
})

t.test('neither a right secret nor a client that goes away resets the count', async (t) => {
  const { here, failures } = await setUp(t, sqlite, 3)
  const right = async () => true as const
  for (const number of [1, 2]) {
    t.equal(await here.attempt(A, async () => null, signIn), null)
    t.equal(await here.attempt(A, right, signIn), true)
    t.match(await failures.find(A), { failures: number })
  }
  const gone = new AbortController()
  const wrong = Promise.withResolvers<null>()
  const begun = Promise.withResolvers<void>()
  const compare = () => {
    begun.resolve()
    return wrong.promise
  }
  const aborted = here.attempt(A, compare, signIn, gone.signal)
  await begun.promise
  gone.abort(new Error('gone'))
  wrong.resolve(null)
  t.equal(await aborted, null)
  await t.rejects(here.attempt(A, right, signIn), BLOCKED, 'what was compared counts')
})

t.jobs = databases.length

for (const database of databases) {
  t.test(database.name, async (t) => {
    t.test(
      'of any number of concurrent attempts exactly as many wrong secrets are compared as the limit allows',
      async (t) => {
        const limit = 7
        const { here, there, failures, blocks } = await setUp(t, database, limit)
        let wrong = 0
        let right = 0
        const outcomes = await Promise.allSettled(
          Array.from({ length: 200 }, (_, index) =>
            (index % 2 ? here : there).attempt(
              A,
              async () => {
                await setTimeout(index % 3)
                if (index % 10 === 0) right++
                else wrong++
                return index % 10 === 0 || null
              },
              signIn,
            ),
          ),
        )
        t.equal(wrong, limit)
        const values = outcomes.map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code))
        t.equal(values.filter((value) => value === null).length, limit)
        t.equal(
          values.filter((value) => value === true).length,
          right,
          'every right secret that was compared is accepted',
        )
        t.equal(values.filter((value) => value === 'blocked').length, 200 - limit - right)
        t.match(await failures.find(A), { failures: limit })
        t.equal(blocks(), 1, 'one block event')
      },
    )

    t.test('attempts without room wait for the outcome of those in flight', async (t) => {
      const { here, there, failures, lift } = await setUp(t, database, 2)
      await here.count(A)
      for (const outcome of [true, null] as const) {
        const first = hold(here)
        await first.begun
        const others = [hold(here), hold(there), hold(there)]
        let counted = 0
        const counts = [here, there].map((budget) => budget.count(A).then(() => counted++))
        for (const count of counts) count.catch(() => {})
        await there.check(A)
        const elsewhere = hold(there, B)
        await elsewhere.begun
        await setTimeout(SETTLE)
        t.notOk(others.some(({ isCompared }) => isCompared()))
        t.equal(counted, 0, 'failures of other credentials wait too')
        elsewhere.settle(true)

        first.settle(outcome)
        t.equal(await first.outcome, outcome)
        if (outcome) {
          // One of the five is next and takes the last place.
          for (const { settle } of others) settle(null)
          await Promise.allSettled([...others.map((other) => other.outcome), ...counts])
          t.equal(others.filter(({ isCompared }) => isCompared()).length + counted, 1)
        } else {
          for (const other of others) await t.rejects(other.outcome, BLOCKED)
          for (const count of counts) await t.rejects(count, BLOCKED)
          t.notOk(others.some(({ isCompared }) => isCompared()))
        }
        t.match(await failures.find(A), { failures: 2 })
        await lift(A)
        await here.count(A)
      }
    })

    t.test(
      'attempts of one address run one at a time, those of different addresses concurrently',
      async (t) => {
        const { here } = await setUp(t, database, 9)
        const [first, second, other] = [hold(here), hold(here), hold(here, B)]
        await Promise.all([first.begun, other.begun])
        await setTimeout(SETTLE)
        t.notOk(second.isCompared())
        first.settle(true)
        await second.begun
        for (const { settle } of [second, other]) settle(true)
        await Promise.all([second.outcome, other.outcome])
      },
    )

    t.test('an error during the comparison does not count as a failure', async (t) => {
      const { here, failures } = await setUp(t, database, 1)
      const broken = hold(here)
      await broken.begun
      broken.reject(new Error('broken'))
      await t.rejects(broken.outcome, { message: 'broken' })
      t.equal(await failures.find(A), null)
      t.equal(await here.attempt(A, async () => true, signIn), true, 'its reservation was released')
    })

    t.test('a failure is counted even if the database was unavailable at first', async (t) => {
      const { here, failures, lock } = await setUp(t, database, 1)
      const attempt = hold(here)
      await attempt.begun
      const unlock = await lock()
      attempt.settle(null)
      await setTimeout(BUSY_TIMEOUT + SETTLE)
      await unlock()
      t.equal(await attempt.outcome, null)
      t.match(await failures.find(A), { failures: 1 })
    })

    t.test('an attempt whose reservation expired is blocked if others have filled the budget', async (t) => {
      const { here, failures, query } = await setUp(t, database, 1)
      const slow = hold(here)
      await slow.begun
      await query('update auth_failures set reserved_until = 0')
      t.match(await failures.count(A, { limit: 1, window: 300 }), { failures: 1 })
      slow.settle(null)
      await t.rejects(slow.outcome, BLOCKED)
    })

    t.test('an attempt cancelled while it waits is not compared', async (t) => {
      const { here, failures } = await setUp(t, database, 1)
      const first = hold(here)
      await first.begun
      const gone = new AbortController()
      const waiting = here.attempt(A, async () => t.fail('cancelled'), signIn, gone.signal)
      gone.abort(new Error('gone'))
      await t.rejects(waiting, { message: 'gone' })
      first.settle(true)
      await first.outcome
      t.equal(await failures.find(A), null)
    })

    t.test('the wait for reservations of a crashed process is bounded', async (t) => {
      const { here, there, query } = await setUp(t, database, 1)
      const now = Date.now()
      await query(`insert into auth_failures (address, failures, ends_at, reserved, reserved_until)
        values ('${A}', 0, ${now}, 1, ${now + 40_000}), ('${B}', 0, ${now}, 1, ${now + 1_500})`)
      const late = [here, there, here].map((budget) =>
        budget.attempt(A, async () => t.fail('no room'), signIn),
      )
      const outcomes = Promise.allSettled(late)
      t.equal(await here.attempt(B, async () => true, signIn), true)
      t.ok(Date.now() >= now + 1_500)
      t.match(
        await outcomes,
        late.map(() => ({ status: 'rejected', reason: { ...BLOCKED, retryAfter: 60 } })),
      )
    })
  })
}
