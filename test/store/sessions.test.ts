import { test } from 'tap'
import { databases, openTestStore } from '../helpers/databases.ts'

const DAY = 24 * 3_600_000

for (const database of databases) {
  test(database.name, async (t) => {
    const { store } = await openTestStore(t, database)
    const { id } = await store.users.create('Alice')
    let now = 1_700_000_000_000
    t.capture(Date, 'now', () => now)

    t.test('finds the user of a session until it is ended', async (t) => {
      await store.sessions.create('one', id)
      t.same(await store.sessions.use('one'), { id, name: 'Alice' })
      t.equal(await store.sessions.use('ONE'), undefined)
      await store.sessions.end('one')
      t.equal(await store.sessions.use('one'), undefined)
    })

    t.test('a session ends seven days after its last use', async (t) => {
      await store.sessions.create('two', id)
      now += 6 * DAY
      t.ok(await store.sessions.use('two'))
      now += 6 * DAY
      t.ok(await store.sessions.use('two'))
      now += 7 * DAY
      t.equal(await store.sessions.use('two'), undefined)
    })

    t.test('a session ends after thirty days even if it is used', async (t) => {
      await store.sessions.create('three', id)
      for (let day = 1; day < 30; day++) {
        now += DAY
        t.ok(await store.sessions.use('three'))
      }
      now += DAY
      t.equal(await store.sessions.use('three'), undefined)
    })
  })
}
