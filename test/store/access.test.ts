import { test } from 'tap'
import { databases, openTestStore } from '../helpers/databases.ts'

for (const database of databases) {
  test(database.name, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const alice = await store.users.create('Alice')
    const created = await store.repositories.create({
      owner: 'alice',
      name: 'One',
      visibility: 'private',
      objectFormat: 'sha256',
    })
    const { id } = await store.tokens.create({
      userId: alice.id,
      name: '',
      prefix: '',
      hash: 'hash',
      scopes: ['repo', 'more'],
      expiresAt: 1_800_000_000_123,
    })
    const token = {
      id,
      userId: alice.id,
      scopes: ['repo', 'more'],
      expiresAt: 1_800_000_000_123,
      lastUsedAt: null,
    }
    const repository = {
      id: created.id,
      visibility: 'private',
      objectFormat: 'sha256',
      path: created.path,
      permission: 'write',
    }
    t.ok(created.path.startsWith(options.dataDir))

    t.test('token and repository are found, and the owner may write', async (t) => {
      t.match(await store.access.look(null, 'hash', 'ALICE', 'oNE'), { token, repository })
    })

    t.test('each is found without the other', async (t) => {
      t.match(await store.access.look(null, null, 'alice', 'one'), {
        token: null,
        repository: { ...repository, permission: null },
      })
      t.match(await store.access.look(null, 'hash', 'alice', 'two'), { token, repository: null })
      t.match(await store.access.look(null, 'other', 'bob', 'one'), { token: null, repository: null })
    })

    t.test('names that break the rules name nothing', async (t) => {
      for (const name of ['', '.', 'one\0', 'one ', 'öne', '\u212Ane', "one'--", 'x'.repeat(10_000)]) {
        t.match(await store.access.look(null, 'hash', 'alice', name), { token, repository: null }, name)
        t.match(await store.access.look(null, 'hash', name, 'one'), { token, repository: null }, name)
      }
    })
  })
}
