import { test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, sqlite } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { addToken } from '../helpers/records.ts'
import { BROWSER, insertSession } from '../helpers/sessions.ts'

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('names keep their case and are compared without regard to ASCII case', async (t) => {
      const { store } = await openTestStore(t, database)
      t.equal(await store.users.any(), false)
      const user = await asAdministrator(store).users.create('Alice-B.c_1', { passwordHash: 'hash' })
      t.match(user, { name: 'Alice-B.c_1', passwordHash: 'hash', createdAt: Number })
      t.equal(await store.users.any(), true)
      t.same(await store.users.find('ALICE-b.C_1'), user)
      t.equal(await store.users.find('alice'), undefined)
      await t.rejects(asAdministrator(store).users.create('aLICE-b.c_1'), {
        name: 'AlreadyExists',
        message: 'there is already a user "aLICE-b.c_1"',
      })
    })

    t.test('a deleted user leaves an event of each token', async (t) => {
      const { store } = await openTestStore(t, database)
      const { id } = await asAdministrator(store).users.create('alice')
      const tokens = [await addToken(store, id), await addToken(store, id)].map((token) => token.id)
      await asAdministrator(store).users.delete('alice')
      const events = await listEvents(store)
      const revoked = events.filter(({ action }) => action === 'token.revoked')
      t.same(revoked.map(({ details }) => details.id).sort(), tokens.sort())
      t.match(events.at(-1), { action: 'user.deleted', details: { tokens: 2 } })
    })

    t.test('a deletion that is refused changes nothing, however many repositories there are', async (t) => {
      const { store } = await openTestStore(t, database)
      const write = asAdministrator(store)
      for (const name of ['alice', 'bob']) await write.users.create(name)
      const kind = { visibility: 'private', objectFormat: 'sha1' } as const
      // One more than a change transfers, and only the last one is refused.
      const names = Array.from({ length: 501 }, (_, index) => `r${index}`)
      await write.repositories.createAll(names.map((name) => ({ owner: 'alice', name, ...kind })))
      await write.repositories.create({ owner: 'bob', name: 'r500', ...kind })
      const state = async () => [
        await store.users.list(),
        await store.repositories.list(),
        await listEvents(store),
      ]
      const before = await state()
      await t.rejects(write.users.delete('alice', 'bob'), { message: /already owns bob\/r500/ })
      t.same(await state(), before)
    })

    t.test('one of several concurrent creations of a name succeeds', async (t) => {
      const { store } = await openTestStore(t, database)
      const outcomes = await Promise.allSettled(
        ['alice', 'Alice', 'ALICE', 'aLiCe'].map((name) => asAdministrator(store).users.create(name)),
      )
      t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
      for (const outcome of outcomes)
        if (outcome.status === 'rejected') t.match(outcome.reason, { name: 'AlreadyExists' })
    })

    t.test('lists users by the code points of their names', async (t) => {
      const { store } = await openTestStore(t, database)
      for (const name of ['b', 'a_', 'A-', 'a.', 'a0', 'Z']) await asAdministrator(store).users.create(name)
      t.same(
        (await store.users.list()).map(({ name }) => name),
        ['A-', 'a.', 'a0', 'a_', 'b', 'Z'],
      )
    })

    t.test('a new user does not inherit write access by accident', async (t) => {
      const { store } = await openTestStore(t, database)
      await asAdministrator(store).repositories.create({
        owner: 'Acme',
        name: 'one',
        visibility: 'public',
        objectFormat: 'sha1',
      })
      await t.rejects(asAdministrator(store).users.create('acme'), {
        name: 'Refusal',
        message: /--own-existing/,
      })
      t.equal(await store.users.find('acme'), undefined)
      await asAdministrator(store).users.create('acme', { ownExisting: true })
      await t.rejects(asAdministrator(store).users.delete('acme'), {
        name: 'Refusal',
        message: /owns repositories/,
      })
      await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'one' })
      await asAdministrator(store).users.delete('acme')
    })

    t.test('deleting a user ends tokens, sessions and access, and never reuses the id', async (t) => {
      const { store } = await openTestStore(t, database)
      const user = await asAdministrator(store).users.create('alice')
      await asAdministrator(store).repositories.create({
        owner: 'acme',
        name: 'one',
        visibility: 'private',
        objectFormat: 'sha1',
      })
      await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'one' }, user.id, 'write')
      const token = { userId: user.id, name: 't', prefix: 'p', scopes: ['repo'], expiresAt: null }
      await asAdministrator(store).tokens.create({ ...token, hash: 'hash' })
      await insertSession(store, 'session', user.id)
      await asAdministrator(store).users.delete('ALICE')
      t.match(await store.access.find(null, 'hash', 'acme', 'one'), { token: null })
      t.equal(await store.sessions.use('session', BROWSER), undefined)
      const again = await asAdministrator(store).users.create('alice')
      t.ok(again.id > user.id)
      await asAdministrator(store).tokens.create({ ...token, userId: again.id, hash: 'hash' })
      t.match(await store.access.find(null, 'hash', 'acme', 'one'), {
        token: { userId: again.id },
        repository: null,
      })
      await t.rejects(asAdministrator(store).users.delete('bob'), {
        name: 'Refusal',
        message: 'there is no user "bob"',
      })
    })

    // The rest does not depend on the database.
    if (database !== sqlite) return

    t.test('rejects invalid and reserved names', async (t) => {
      const { store } = await openTestStore(t, database)
      for (const name of [
        '',
        '.',
        '..',
        'a/b',
        'a b',
        'é',
        'a.git',
        'a.lock',
        'a'.repeat(101),
        'API',
        'settings',
      ]) {
        await t.rejects(asAdministrator(store).users.create(name), { name: 'Refusal' }, name)
      }
      await asAdministrator(store).users.create('a'.repeat(100))
    })
  })
}
