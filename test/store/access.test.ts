import { test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'

for (const database of databases) {
  test(database.name, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const alice = await asAdministrator(store).users.create('Alice')
    const created = await asAdministrator(store).repositories.create({
      owner: 'alice',
      name: 'One',
      visibility: 'private',
      objectFormat: 'sha256',
    })
    const { id } = await asAdministrator(store).tokens.create({
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
      objectFormat: 'sha256',
      path: created.path,
      permission: 'write',
    }
    t.ok(created.path.startsWith(options.dataDir))

    t.test('finds token and repository, and the owner may write', async (t) => {
      t.match(await store.access.find(null, 'hash', 'ALICE', 'oNE'), { token, repository })
    })

    t.test('finds a token without a repository, and a repository without a token', async (t) => {
      t.match(await store.access.find(null, 'hash', 'alice', 'two'), { token, repository: null })
      t.match(await store.access.find(null, 'other', 'bob', 'one'), { token: null, repository: null })
    })

    t.test('a repository is missing for users who may not read it', async (t) => {
      const hashes: Record<string, string | null> = { anonymous: null, unknown: 'unknown' }
      for (const name of ['acme', 'reader', 'writer', 'stranger']) {
        const { id } = await asAdministrator(store).users.create(name)
        await asAdministrator(store).tokens.create({
          userId: id,
          name,
          prefix: '',
          hash: name,
          scopes: [],
          expiresAt: null,
        })
        hashes[name] = name
      }
      for (const name of ['open', 'secret']) {
        const visibility = name === 'open' ? 'public' : 'private'
        await asAdministrator(store).repositories.create({
          owner: 'Acme',
          name,
          visibility,
          objectFormat: 'sha1',
        })
        for (const [user, permission] of [['reader', 'read'] as const, ['writer', 'write'] as const]) {
          const found = await store.users.find(user)
          await asAdministrator(store).collaborators.set({ owner: 'acme', name }, found?.id ?? 0, permission)
        }
      }
      const given: Record<string, string> = { acme: 'write', reader: 'read', writer: 'write' }
      for (const [caller, hash] of Object.entries(hashes)) {
        const permission = given[caller]
        const seen = async (name: string) => (await store.access.find(null, hash, 'acme', name)).repository
        t.equal((await seen('secret'))?.permission, permission, `${caller}, private`)
        t.equal((await seen('open'))?.permission, permission ?? null, `${caller}, public`)
        t.equal(await seen('missing'), null, caller)
      }
    })

    t.test('an invalid name is a missing repository', async (t) => {
      for (const name of ['', '.', 'one\0', 'one ', 'öne', '\u212Ane', "one'--", 'x'.repeat(10_000)]) {
        t.match(await store.access.find(null, 'hash', 'alice', name), { token, repository: null }, name)
        t.match(await store.access.find(null, 'hash', name, 'one'), { token, repository: null }, name)
      }
    })
  })
}
