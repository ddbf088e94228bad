import { test } from 'tap'
import { openEngine } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'

for (const database of databases) {
  test(`${database.name} gives out only ids above the last one`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const engine = await openEngine(options)
    t.teardown(() => engine.close())
    const setLastId = (table: string, id: number) =>
      engine.kysely.transaction().execute((db) => engine.setLastId(db, table, id))
    t.equal(await engine.lastId(engine.kysely, 'users'), 0)
    await setLastId('users', 5)
    await setLastId('users', 3)
    t.equal(await engine.lastId(engine.kysely, 'users'), 5)
    t.match(await asAdministrator(store).users.create('alice'), { id: 6 })
    await setLastId('users', 10)
    t.match(await asAdministrator(store).users.create('bob'), { id: 11 })
    t.equal(await engine.lastId(engine.kysely, 'repositories'), 0)
  })

  test(`${database.name} runs many statements at once, and closes its connections`, async (t) => {
    const { store } = await openTestStore(t, database)
    await asAdministrator(store).users.create('alice')
    const found = await Promise.all(Array.from({ length: 200 }, () => store.users.find('alice')))
    t.equal(new Set(found.map((user) => user?.id)).size, 1)
  })
}
