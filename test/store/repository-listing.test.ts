import { test } from 'tap'
import { databases, openTestStore } from '../helpers/databases.ts'

for (const database of databases) {
  test(database.name, async (t) => {
    const { store } = await openTestStore(t, database)
    const alice = await store.users.create('alice')
    const bob = await store.users.create('bob')
    for (const [owner, name, visibility] of [
      ['Alice', 'secret', 'private'],
      ['alice', 'open', 'public'],
      ['acme', 'shared', 'private'],
      ['acme', 'Open', 'public'],
      ['zoe', 'secret', 'private'],
    ] as const) {
      await store.repositories.create({ owner, name, visibility, objectFormat: 'sha1' })
    }
    await store.collaborators.set('acme', 'shared', bob.id, 'write')
    const seen = async (userId: number | null) =>
      (await store.listing.list(userId, 10)).map(
        ({ owner, name, permission }) => `${owner}/${name} ${permission}`,
      )

    t.test('lists public repositories, for a user also their own and shared ones', async (t) => {
      t.same(await seen(null), ['acme/Open null', 'alice/open null'])
      t.same(await seen(alice.id), ['acme/Open null', 'alice/open admin', 'Alice/secret admin'])
      t.same(await seen(bob.id), ['acme/Open null', 'acme/shared write', 'alice/open null'])
    })

    t.test('finds a repository by name in any case', async (t) => {
      t.match(await store.listing.find(alice.id, 'ALICE', 'Secret'), { name: 'secret', permission: 'admin' })
      t.equal(await store.listing.find(bob.id, 'alice', 'secret'), null)
      t.equal(await store.listing.find(null, 'alice', 'secret'), null)
    })

    t.test('lists pages', async (t) => {
      const names: string[] = []
      let [last] = await store.listing.list(alice.id, 1)
      while (last) {
        names.push(`${last.owner}/${last.name}`)
        ;[last] = await store.listing.list(alice.id, 1, last)
      }
      t.same(names, ['acme/Open', 'alice/open', 'Alice/secret'])
    })

    t.test('lists repositories that the user may write to', async (t) => {
      t.match(await store.listing.writable(alice.id, 1), [{ name: 'open' }])
      t.match(await store.listing.writable(bob.id, 9), [{ name: 'shared' }])
    })
  })
}
