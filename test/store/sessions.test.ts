import { test } from 'tap'
import type { NamedUser } from '../../src/domain/actors.ts'
import { sessionId } from '../../src/store/accounts/sessions.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { addToken } from '../helpers/records.ts'
import { BROWSER, insertSession } from '../helpers/sessions.ts'

const DAY = 24 * 3_600_000
const PHONE = { address: '2001:db8::/64', userAgent: 'phone' }

for (const database of databases) {
  test(database.name, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const alice = await asAdministrator(store).users.create('Alice', { passwordHash: 'hash' })
    const bob = await asAdministrator(store).users.create('bob')
    let now = 1_700_000_000_000
    t.capture(Date, 'now', () => now)

    t.test('finds the user of a session until it is signed out of', async (t) => {
      t.equal(await store.sessions.create('one', alice, BROWSER), true)
      t.match(await store.sessions.use('one', BROWSER), { id: alice.id, name: 'Alice' })
      t.equal(await store.sessions.use('ONE', BROWSER), undefined)
      const by = { kind: 'user', user: alice, address: BROWSER.address, session: 'one' } as const
      await store.audit.transaction(by, store.sessions.signOut)
      t.equal(await store.sessions.use('one', BROWSER), undefined)
      await t.rejects(store.audit.transaction(by, store.sessions.signOut), { code: 'session_ended' })
    })

    t.test('a session ends seven days after its last use', async (t) => {
      await store.sessions.create('two', alice, BROWSER)
      now += 6 * DAY
      t.ok(await store.sessions.use('two', BROWSER))
      now += 6 * DAY
      t.ok(await store.sessions.use('two', BROWSER))
      const by = { kind: 'user', user: alice, address: BROWSER.address, session: 'two' } as const
      t.equal(await store.audit.transaction(by, async () => 'done'), 'done')
      now += 7 * DAY
      await t.rejects(
        store.audit.transaction(by, async () => 'done'),
        { code: 'session_ended' },
      )
      t.equal(await store.sessions.use('two', BROWSER), undefined)
    })

    t.test('a token changes nothing from its end on', async (t) => {
      const { id } = await addToken(store, alice.id, { expiresAt: now + DAY })
      const by = { kind: 'user', user: alice, address: BROWSER.address, token: { id, name: 'test' } } as const
      const change = () => store.audit.transaction(by, async () => 'done')
      now += DAY - 1
      t.equal(await change(), 'done')
      now += 1
      await t.rejects(change(), { code: 'credential_unknown' })
    })

    t.test(
      'a token changes nothing while a sign-in of its user is due, nor one of somebody else',
      async (t) => {
        const day = await openStore({ ...options, signInEvery: DAY / 1000 })
        t.teardown(() => day.close())
        const account = { issuer: 'https://id.example.org/', subject: 'dora' }
        const dora = await asAdministrator(store).users.create('dora', { identity: account })
        const { id } = await addToken(store, dora.id)
        const by = {
          kind: 'user',
          user: dora,
          address: BROWSER.address,
          token: { id, name: 'test' },
        } as const
        const change = (from: Store, user: NamedUser = dora) =>
          from.audit.transaction({ ...by, user }, async () => 'done')
        now += DAY - 1000
        t.equal(await change(day), 'done')
        await t.rejects(change(day, alice), { code: 'credential_unknown' })
        now += 1000
        await t.rejects(change(day), {
          code: 'credential_unknown',
          message: /has not signed in for too long/,
        })
        t.equal(await change(store), 'done', 'unless sign-ins are never due')
        await asAdministrator(store).users.setLocked('dora', true)
        await t.rejects(change(store), { code: 'credential_unknown' }, 'locked')
      },
    )

    t.test('a session ends after thirty days even if it is used', async (t) => {
      await store.sessions.create('three', alice, BROWSER)
      for (let day = 1; day < 30; day++) {
        now += DAY
        t.ok(await store.sessions.use('three', BROWSER))
      }
      now += DAY
      t.equal(await store.sessions.use('three', BROWSER), undefined)
    })

    t.test('a session that has ended cannot change the password', async (t) => {
      const carol = await asAdministrator(store).users.create('carol', { passwordHash: 'old' })
      const change = (session: string) =>
        store.audit.transaction({ kind: 'user', user: carol, address: BROWSER.address, session }, (change) =>
          store.users.setOwnPassword(change, carol, 'new', `${session} again`),
        )
      const ended = { code: 'session_ended' }
      const passwordOf = async () => (await store.users.get('carol')).passwordHash
      await store.sessions.create('ended', carol, BROWSER)
      await asAdministrator(store).sessions.endAll(carol)
      await store.sessions.create('another', carol, BROWSER)
      await t.rejects(change('ended'), ended)
      await store.sessions.create('locked', carol, BROWSER)
      await asAdministrator(store).users.setLocked('carol', true)
      await t.rejects(change('locked'), ended)
      // As if the user was locked between the two reads of a change.
      await insertSession(store, 'between', carol.id)
      await t.rejects(change('between'), ended)
      t.equal(await passwordOf(), 'old')
      await asAdministrator(store).users.setLocked('carol', false)
      t.ok(await change('between'))
      t.equal(await passwordOf(), 'new')
    })

    t.test('a new session of a browser replaces the previous one', async (t) => {
      await store.sessions.create('before', alice, BROWSER)
      await store.sessions.create('after', alice, BROWSER, 'before')
      t.equal(await store.sessions.use('before', BROWSER), undefined)
      t.ok(await store.sessions.use('after', BROWSER))
      const events = (await listEvents(store)).sort((one, other) => one.id - other.id)
      t.same(
        events.slice(-2).map(({ action }) => action),
        ['session.ended', 'sign-in'],
      )
      await asAdministrator(store).sessions.endAll(alice)
    })

    t.test('lists sessions with their latest address and browser, the last used one first', async (t) => {
      await store.sessions.create('aaaaaaaaaaaaaaaaaaaa', alice, BROWSER)
      await store.sessions.create('bbbbbbbbbbbbbbbbbbbb', alice, BROWSER)
      await insertSession(store, 'cccccccccccccccccccc', bob.id)
      const createdAt = Math.floor(now / 1000)
      now += 400_000
      await store.sessions.use('aaaaaaaaaaaaaaaaaaaa', PHONE)
      t.same(await store.sessions.list(alice.id, 10), [
        {
          id: 'aaaaaaaaaaaaaaaa',
          createdAt,
          seenAt: createdAt + 400,
          address: PHONE.address,
          userAgent: 'phone',
        },
        {
          id: sessionId('bbbbbbbbbbbbbbbbbbbb'),
          createdAt,
          seenAt: createdAt,
          address: BROWSER.address,
          userAgent: BROWSER.userAgent,
        },
      ])
      t.equal((await store.sessions.list(alice.id, 1)).length, 1)
      now += 7 * DAY
      t.same(await store.sessions.list(alice.id, 10), [], 'without those that have expired')
      now -= 7 * DAY
    })

    t.test('ends one session of a user, all others, or all, and none of another user', async (t) => {
      const left = async () => (await store.sessions.list(alice.id, 10)).map(({ id }) => id)
      const by = { kind: 'user', user: alice, address: BROWSER.address } as const
      const end = (hash: string) =>
        store.audit.transaction({ ...by, session: 'aaaaaaaaaaaaaaaaaaaa' }, (change) =>
          store.sessions.endOwn(change, sessionId(hash)),
        )
      t.equal(await end('cccccccccccccccccccc'), 0)
      t.equal(await end('bbbbbbbbbbbbbbbbbbbb'), 1)
      t.same(await left(), ['aaaaaaaaaaaaaaaa'])
      await store.sessions.create('dddddddddddddddddddd', alice, BROWSER)
      const session = 'dddddddddddddddddddd'
      t.equal(await store.audit.transaction({ ...by, session }, store.sessions.endOthers), 1)
      t.same(await left(), ['dddddddddddddddd'])
      t.equal(await asAdministrator(store).sessions.endAll(alice), 1)
      t.same(await left(), [])
      t.equal((await store.sessions.list(bob.id, 10)).length, 1)
    })

    t.test(
      'no session starts with a password that was changed, or of a user who was locked, meanwhile',
      async (t) => {
        const changed = await asAdministrator(store).users.create('changed', { passwordHash: 'old' })
        await asAdministrator(store).users.setPassword(changed, 'new')
        t.equal(await store.sessions.create('s1', changed, BROWSER), false)
        const locked = await asAdministrator(store).users.create('locked', { passwordHash: 'hash' })
        await asAdministrator(store).users.setLocked('locked', true)
        t.equal(await store.sessions.create('s2', locked, BROWSER), false)
        await insertSession(store, 's3', locked.id)
        t.equal(await store.sessions.use('s3', BROWSER), undefined, 'nor is one of a locked user accepted')
        const deleted = await asAdministrator(store).users.create('deleted', { passwordHash: 'hash' })
        await asAdministrator(store).users.delete('deleted')
        t.equal(await store.sessions.create('s4', deleted, BROWSER), false)
      },
    )

    t.test('no session starts with a link that was changed meanwhile', async (t) => {
      const account = { issuer: 'https://id.example.org/', subject: 'x' }
      const before = await asAdministrator(store).users.create('linked', { passwordHash: 'hash' })
      await asAdministrator(store).users.link('linked', account)
      t.equal(
        await store.sessions.create('l1', before, BROWSER),
        false,
        'with a password, which no longer works',
      )
      const linked = await store.users.get('linked')
      await store.engine.kysely.updateTable('users').set({ signed_in_at: 1 }).execute()
      const signedInAt = async () => (await store.users.get('linked')).signedInAt
      t.equal(await store.sessions.create('l2', { ...linked, signedInAt: 1 }, BROWSER), true)
      t.equal(await signedInAt(), 1, 'a password says nothing about the account of a provider')
      t.equal(await store.sessions.create('l2b', linked, BROWSER, undefined, true), true)
      t.ok(Number(await signedInAt()) > 1)
      await asAdministrator(store).users.link('linked', null)
      t.equal(await store.sessions.use('l2', BROWSER), undefined)
      t.equal(await store.sessions.create('l3', linked, BROWSER), false)
    })
  })
}
