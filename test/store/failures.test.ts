import { test } from 'tap'
import { databases, openTestStore } from '../helpers/databases.ts'

const LONG = 300_000

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('of any number at once, each gets a number of its own', async (t) => {
      const { store } = await openTestStore(t, database)
      t.equal(await store.failures.find('192.0.2.1'), null)
      const counted = await Promise.all(
        Array.from({ length: 100 }, () => store.failures.count('192.0.2.1', LONG)),
      )
      const numbers = counted.map(({ failures }) => failures).sort((a, b) => a - b)
      t.same(
        numbers,
        Array.from({ length: 100 }, (_, index) => index + 1),
      )
      for (const { endsIn } of counted) t.ok(endsIn > LONG - 60_000 && endsIn <= LONG)
      t.match(await store.failures.find('192.0.2.1'), { failures: 100 })
      t.equal(await store.failures.find('192.0.2.2'), null)
    })

    t.test('a window begins with the first failure, and ends; then counting starts anew', async (t) => {
      const { store } = await openTestStore(t, database)
      const { endsIn } = await store.failures.count('192.0.2.1', 200)
      const later = await store.failures.count('192.0.2.1', LONG)
      t.equal(later.failures, 2)
      t.ok(later.endsIn <= endsIn, 'a later one does not lengthen it')
      let current = await store.failures.find('192.0.2.1')
      while (current) current = await store.failures.find('192.0.2.1')
      t.match(await store.failures.count('192.0.2.1', LONG), { failures: 1 })
    })

    t.test('the blocked are listed and can be let go', async (t) => {
      const { store } = await openTestStore(t, database)
      await store.failures.count('192.0.2.1', LONG)
      for (const window of [LONG, LONG]) await store.failures.count('192.0.2.2', window)
      for (const window of [2 * LONG, LONG]) await store.failures.count('2001:db8::/64', window)
      t.match(await store.failures.list(2), [
        { address: '2001:db8::/64', failures: 2 },
        { address: '192.0.2.2', failures: 2 },
      ])
      t.equal(await store.failures.lift('192.0.2.2'), true)
      t.equal(await store.failures.lift('192.0.2.2'), false)
      t.match(await store.failures.list(2), [{ address: '2001:db8::/64' }])
    })
  })
}
