import { test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'

for (const database of databases) {
  test(database.name, async (t) => {
    const { store } = await openTestStore(t, database)
    const alice = await asAdministrator(store).users.create('alice')
    const bob = await asAdministrator(store).users.create('bob')
    for (const [owner, name, visibility] of [
      ['Alice', 'secret', 'private'],
      ['alice', 'open', 'public'],
      ['acme', 'shared', 'private'],
      ['acme', 'Open', 'public'],
      ['zoe', 'secret', 'private'],
    ] as const) {
      await asAdministrator(store).repositories.create({ owner, name, visibility, objectFormat: 'sha1' })
    }
    await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'shared' }, bob.id, 'write')
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
        ;[last] = await store.listing.list(alice.id, 1, { after: last })
      }
      t.same(names, ['acme/Open', 'alice/open', 'Alice/secret'])
    })

    t.test('lists repositories of an owner', async (t) => {
      const names = async (userId: number | null, owner: string) =>
        (await store.listing.list(userId, 9, { owner })).map(({ name }) => name)
      t.same(await names(null, 'ALICE'), ['open'])
      t.same(await names(alice.id, 'alice'), ['open', 'secret'])
      t.same(await names(alice.id, 'zoe'), [])
      t.same(await names(null, 'ali'), [])
    })

    t.test('finds repositories by a part of a name', async (t) => {
      const found = async (text: string, userId: number | null = null, count = 9) =>
        (await store.listing.search(userId, text, count)).map(({ owner, name }) => `${owner}/${name}`)
      t.same(await found('OPE'), ['acme/Open', 'alice/open'])
      t.same(await found('a'), ['acme/Open', 'alice/open'])
      t.same(await found('a', bob.id), ['acme/Open', 'acme/shared', 'alice/open'])
      t.same(await found('alice/'), ['alice/open'])
      t.same(await found('Alice/S', alice.id), ['Alice/secret'])
      t.same(await found('o', null, 1), ['acme/Open'])
      t.same(await found('PEN'), ['acme/Open', 'alice/open'])
      t.same(await found('lice/o'), ['alice/open'])
      t.same(await found('ecre', bob.id), [], 'not of one that is hidden')
      await asAdministrator(store).repositories.create({
        owner: 'bob',
        name: 'a',
        visibility: 'public',
        objectFormat: 'sha1',
      })
      t.same(await found('a'), ['bob/a', 'acme/Open', 'alice/open'], 'by their own name first')
      await asAdministrator(store).repositories.delete({ owner: 'bob', name: 'a' })
      for (const text of ['zoe', 'o_en', 'secret', 'a_', 'a%', 'acm/', '/open', 'a/b/c', 'a\0', '', '/'])
        t.same(await found(text), [], text)
    })

    t.test('lists repositories that the user may write to', async (t) => {
      t.match(await store.listing.writable(alice.id, 1), [{ name: 'open' }])
      t.match(await store.listing.writable(bob.id, 9), [{ name: 'shared' }])
    })
  })
}
