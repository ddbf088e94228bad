import { join } from 'node:path'
import { test } from 'tap'
import { restoreBackup } from '../../src/maintenance/backup/restore.ts'
import { writeBackup } from '../../src/maintenance/backup/write.ts'
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

    await engine.kysely
      .insertInto('users')
      .values({
        ...(await engine.kysely.selectFrom('users').selectAll().executeTakeFirstOrThrow()),
        id: 20,
        name: 'carol',
        name_key: 'carol',
      })
      .execute()
    await setLastId('users', 0)
    t.match(await asAdministrator(store).users.create('dave'), { id: 21 }, 'above those of restored rows')
  })

  test(`${database.name} refuses queries beside a transaction of maintenance`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    await asAdministrator(store).users.create('alice')
    const beside: Promise<unknown>[] = []
    const query = () => {
      const read = store.rules.load(1)
      read.catch(() => {})
      beside.push(read)
    }
    const file = join(options.dataDir, 'backup')
    await writeBackup(store.engine, file, query)
    const written = beside.length
    const { store: empty } = await openTestStore(t, database)
    await restoreBackup(empty.engine, file, query)
    const restored = beside.length
    await store.engine.exclusively(async () => query())
    t.ok(written > 0 && restored > written && beside.length > restored)
    for (const read of beside) await t.rejects(read, { message: /must run in it/ })
    await t.resolves(store.rules.load(1), 'and later ones go on')
  })

  test(`${database.name} runs many statements at once, and closes its connections`, async (t) => {
    const { store } = await openTestStore(t, database)
    await asAdministrator(store).users.create('alice')
    const found = await Promise.all(Array.from({ length: 12 }, () => store.users.find('alice')))
    t.equal(new Set(found.map((user) => user?.id)).size, 1)
  })
}
