import { test } from 'tap'
import { rotateToken } from '../../src/auth/issue-token.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { signIn } from '../helpers/sessions.ts'

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('lists tokens newest first, without the hash', async (t) => {
      const { store } = await openTestStore(t, database)
      const alice = await asAdministrator(store).users.create('alice')
      const bob = await asAdministrator(store).users.create('bob')
      let now = 1_700_000_000_000
      t.capture(Date, 'now', () => now)
      const token = { userId: alice.id, name: 'CI é \u{1F511}', prefix: 'cst_1', scopes: ['repo'] }
      const first = await asAdministrator(store).tokens.create({
        ...token,
        hash: '1',
        expiresAt: 1_800_000_000_123,
      })
      t.same(first, {
        id: first.id,
        user: 'alice',
        name: 'CI é \u{1F511}',
        prefix: 'cst_1',
        scopes: 'repo',
        createdAt: 1_700_000_000,
        expiresAt: 1_800_000_000_123,
        lastUsedAt: null,
        reporterId: first.reporterId,
        repositories: null,
        hiddenRepositories: 0,
        contexts: null,
        push: true,
      })
      now += 1_000
      const second = await asAdministrator(store).tokens.create({
        ...token,
        hash: '2',
        scopes: [],
        expiresAt: null,
      })
      t.match(second, { scopes: '', expiresAt: null })
      const listed = [second, first].map((shown) => ({ ...shown, isReplaced: false, signInDue: null }))
      t.same(await store.tokens.list(alice.id), listed)
      t.same(await store.tokens.list(bob.id), [])
    })

    t.test('the event of a token names its limits', async (t) => {
      const { store } = await openTestStore(t, database)
      const { id: userId } = await asAdministrator(store).users.create('alice')
      const token = { userId, name: 'ci', prefix: '', hash: '1', scopes: ['repo'], expiresAt: null }
      const limits = { repositories: null, contexts: ['ci/*'], push: false }
      const { id } = await asAdministrator(store).tokens.create({ ...token, limits })
      const details = { id, scopes: ['repo'], expires_at: null, contexts: ['ci/*'], push: false }
      t.same((await listEvents(store)).at(-1)?.details, details)
    })

    t.test('revokes a token at once, only once, and only for its user', async (t) => {
      const { store } = await openTestStore(t, database)
      const alice = await asAdministrator(store).users.create('alice')
      const bob = await asAdministrator(store).users.create('bob')
      const token = { userId: alice.id, name: '', prefix: '', scopes: [], expiresAt: null }
      const { id } = await asAdministrator(store).tokens.create({ ...token, hash: 'hash' })
      await t.rejects(
        store.audit.transaction(await signIn(store, bob), (change) => store.tokens.revoke(change, id)),
        { name: 'Refusal' },
      )
      t.match(await store.access.find(null, 'hash', 'a', 'b'), { token: { id } })
      await store.audit.transaction(await signIn(store, alice), (change) => store.tokens.revoke(change, id))
      t.match(await store.access.find(null, 'hash', 'a', 'b'), { token: null })
      await t.rejects(asAdministrator(store).tokens.revoke(id), {
        name: 'Refusal',
        message: `there is no token ${id}`,
      })
      t.same(await store.tokens.list(alice.id), [])
    })

    t.test('rotates a token, whose old secret works no longer than it would have', async (t) => {
      const { store } = await openTestStore(t, database)
      const { id: userId } = await asAdministrator(store).users.create('alice')
      const token = { userId, name: 'ci', prefix: '', scopes: [] }
      const soon = Date.now() + 60_000
      const { id } = await asAdministrator(store).tokens.create({ ...token, hash: 'old', expiresAt: soon })
      const rotation = { prefix: '', hash: 'new', expiresAt: () => null, oldExpiresAt: soon + 1 }
      t.same(await asAdministrator(store).tokens.rotate(id, rotation), {
        expiresAt: null,
        oldExpiresAt: soon,
      })
      for (const [hash, expiresAt] of [
        ['old', soon],
        ['new', null],
      ] as const)
        t.match(await store.access.find(null, hash, 'a', 'b'), { token: { expiresAt } }, hash)
      const again = { ...rotation, hash: 'newer', oldExpiresAt: soon - 1 }
      t.same(await asAdministrator(store).tokens.rotate(id, again), {
        expiresAt: null,
        oldExpiresAt: soon - 1,
      })
      await t.rejects(asAdministrator(store).tokens.rotate('none', again), { name: 'Refusal' })
      const replaced = (await store.tokens.list(userId)).filter(({ isReplaced }) => isReplaced)
      t.same(replaced.map(({ expiresAt }) => expiresAt).sort(), [soon - 1, soon])
      for (const { id: old } of replaced)
        await t.rejects(
          asAdministrator(store).tokens.rotate(old, { ...again, hash: 'longer' }),
          { message: `the token ${old} is an old secret of ${id}; rotate that one, or create another one` },
          'an old secret gets no other lifetime',
        )
      const eve = await signIn(store, await asAdministrator(store).users.create('eve'))
      await t.rejects(
        store.audit.transaction(eve, (change) => store.tokens.rotate(change, id, again)),
        { name: 'Refusal' },
        'a user rotates no token of another',
      )
    })

    t.test('a new secret lives as long as the old one did, and no longer than it may', async (t) => {
      const { store } = await openTestStore(t, database)
      const { id: userId } = await asAdministrator(store).users.create('alice')
      const day = 86_400_000
      for (const [lifetime, maxLifetime, expected] of [
        [7, null, 7],
        [7, 90, 7],
        [90, 7, 7],
        [null, 7, 7],
        [null, null, null],
      ]) {
        const expiresAt = lifetime == null ? null : Date.now() + lifetime * day
        const token = { userId, name: 'ci', prefix: '', scopes: [], hash: `${lifetime} ${maxLifetime}` }
        const { id } = await asAdministrator(store).tokens.create({ ...token, expiresAt })
        const rotated = await store.audit.transaction({ kind: 'administrator' }, (change) =>
          rotateToken(change, store.tokens, id, 0, maxLifetime == null ? null : maxLifetime * day),
        )
        const days = rotated.expiresAt && Math.round((rotated.expiresAt - Date.now()) / day)
        t.equal(days, expected, `${lifetime} days, of at most ${maxLifetime}`)
      }
    })

    t.test('the next rotation deletes old secrets that have expired', async (t) => {
      const { store } = await openTestStore(t, database)
      const write = asAdministrator(store)
      const { id: userId } = await write.users.create('alice')
      const token = { userId, name: 'ci', prefix: '', scopes: [] }
      const { id } = await write.tokens.create({ ...token, hash: '0', expiresAt: null })
      // Neither those of other tokens, nor another token that has expired.
      const { id: other } = await write.tokens.create({ ...token, hash: 'x', expiresAt: null })
      const { id: expired } = await write.tokens.create({ ...token, hash: 'y', expiresAt: 1 })
      let rotations = 0
      const rotate = (id: string, oldExpiresAt: number) =>
        write.tokens.rotate(id, { ...token, hash: `${++rotations}`, expiresAt: () => null, oldExpiresAt })
      await rotate(other, 1)
      for (let night = 0; night < 3; night++) await rotate(id, 1)
      await rotate(id, Date.now() + 3_600_000)
      await rotate(id, 1)
      const listed = (await store.tokens.list(userId)).map(({ id: listed, isReplaced, expiresAt }) =>
        [id, other, expired].includes(listed) ? listed : [isReplaced, (expiresAt ?? 0) > 1],
      )
      t.same(listed.map(String).sort(), [id, other, expired, [true, true]].map(String).sort(), 'one works')
    })

    t.test('every secret of rotations at once works', async (t) => {
      const { store, options } = await openTestStore(t, database)
      const other = await openStore(options)
      t.teardown(() => other.close())
      const { id: userId } = await asAdministrator(store).users.create('alice')
      const token = { userId, name: 'ci', prefix: '', scopes: [], expiresAt: null }
      const { id } = await asAdministrator(store).tokens.create({ ...token, hash: '0' })
      const oldExpiresAt = Date.now() + 60_000
      const rotate = (store: Store, hash: string) =>
        asAdministrator(store).tokens.rotate(id, { prefix: '', hash, expiresAt: () => null, oldExpiresAt })
      // The other one has a connection.
      await rotate(other, '1')
      for (let round = 2; round < 10; round += 2)
        await Promise.all([rotate(store, `${round}`), rotate(other, `${round + 1}`)])
      for (let hash = 0; hash < 10; hash++)
        t.not((await store.access.find(null, `${hash}`, 'a', 'b')).token, null)
    })

    t.test('records last uses, ignoring tokens that were revoked meanwhile', async (t) => {
      const { store } = await openTestStore(t, database)
      const { id: userId } = await asAdministrator(store).users.create('alice')
      const token = { userId, name: '', prefix: '', scopes: [], expiresAt: null }
      const ids: string[] = []
      for (const hash of ['1', '2'])
        ids.push((await asAdministrator(store).tokens.create({ ...token, hash })).id)
      await asAdministrator(store).tokens.revoke(ids[1] ?? '')
      await store.tokens.touch(new Map(ids.map((id) => [id, 1_700_000_000])))
      t.match(await store.tokens.list(userId), [{ id: ids[0] ?? '', lastUsedAt: 1_700_000_000 }])
    })
  })
}
