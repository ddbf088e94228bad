import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { sql } from 'kysely'
import { test } from 'tap'
import { ADMINISTRATOR, type Administrator, type Author } from '../../src/domain/actors.ts'
import { createRepositories } from '../../src/repositories/create.ts'
import type { AuditEvent, AuditLine } from '../../src/store/audit/audit.ts'
import type { Transact } from '../../src/store/audit/change.ts'
import type { AuditFilter, RepositoryEventFilter } from '../../src/store/audit/repository-events.ts'
import { addMissingRepositories } from '../../src/store/schema/older-rows.ts'
import type { Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'

const alice = { id: 1, name: 'Alice' }
const bob = { id: 2, name: 'bob' }
const address = '192.0.2.1'
const ci: Author = { kind: 'user', user: bob, token: { id: 'f00d', name: 'CI' }, address }

/** An event, and who did it. */
type Done = AuditEvent & { by: Author }

const locked: Done = {
  by: ADMINISTRATOR,
  action: 'user.locked',
  subject: alice,
  details: { sessions: 2 },
}
const pushed: Done = {
  by: ci,
  action: 'push',
  repository: { id: 1, name: 'Acme/Rocket' },
  details: { updates: [{ ref: 'refs/heads/main', old: '0'.repeat(40), new: 'a'.repeat(40) }] },
}
const shared: Done = {
  by: ci,
  action: 'repository.access',
  repository: { id: 1, name: 'Acme/Rocket' },
  subject: alice,
  details: { user: 'Alice', access: 'read', from: 'none' },
}

async function record(store: Store, ...events: Done[]): Promise<void> {
  await store.audit.transaction(ADMINISTRATOR, async (change) => {
    for (const { by, ...event } of events) await change.recordOf(by, event)
  })
}

for (const database of databases) {
  test(database.name, async (t) => {
    t.test(
      'a repository has no events of others that had its name, even of the same millisecond',
      async (t) => {
        const { store } = await openTestStore(t, database)
        const write = asAdministrator(store)
        const owner = await write.users.create('alice')
        const since = Date.now()
        t.capture(Date, 'now', () => since)
        const [one, two, three] = ['one', 'two', 'three'].map((name) => ({ owner: 'alice', name }))
        const create = (names: { owner: string; name: string }) =>
          write.repositories.create({ ...names, visibility: 'private', objectFormat: 'sha1' })
        assert(one && two && three)
        const { id } = await create(one)
        await create(two)
        await write.repositories.delete(two)
        await write.repositories.rename(one, two)
        const eventsOf = async (id: number) =>
          (await store.auditLog.latestOf(id, owner.id, {}, 10)).map((event) => event.action)
        t.same(await eventsOf(id), ['repository.renamed', 'repository.created'])
        await write.repositories.rename(two, three)
        const { kysely, dialect } = store.engine
        const ids = () =>
          kysely.selectFrom('audit_events').select(['id', 'repository_id']).orderBy('id').execute()
        const before = await ids()
        await kysely.updateTable('audit_events').set({ repository_id: null }).execute()
        await sql.raw(addMissingRepositories(dialect)).execute(kysely)
        t.same(
          await ids(),
          before.map((row) => (row.repository_id === id ? row : { ...row, repository_id: null })),
          'events of version 0.3.0, which have no id, get that of the repository that had the name',
        )

        await write.repositories.delete(three)
        await write.reservedNames.release(two)
        const next = await create(two)
        t.same(await eventsOf(next.id), ['repository.created'], 'it was deleted in the same second')
      },
    )

    t.test('finds events of a repository by kind and user', async (t) => {
      const { store } = await openTestStore(t, database)
      let now = 1_000
      t.capture(Date, 'now', () => now++)
      const rename: Done = {
        by: ADMINISTRATOR,
        action: 'repository.renamed',
        repository: { id: 1, name: 'Acme/Rocket' },
        details: { from: 'acme/old' },
      }
      const oldPush: Done = { ...pushed, repository: { id: 1, name: 'acme/old' } }
      const foreign: Done = { ...pushed, repository: { id: 2, name: 'acme/other' } }
      await record(store, oldPush, shared, rename, foreign, pushed, shared, { ...pushed, by: ADMINISTRATOR })
      const ids = async (
        filter: RepositoryEventFilter,
        count = 10,
        before?: { time: number; id: number },
      ) => {
        return (await store.auditLog.latestOf(1, 9, filter, count, before)).map(({ id }) => id)
      }
      t.same(await ids({}), [7, 6, 5, 3, 2, 1])
      t.same(await ids({ action: 'push' }), [7, 5, 1])
      t.same(await ids({ user: 'BOB' }), [6, 5, 2, 1])
      t.same(await ids({ user: 'bob', action: 'repository.access' }), [6, 2])
      t.same(await ids({ user: 'alice' }), [6, 2], 'whom they concern')
      t.same(await ids({ user: 'alice' }, 2, { time: 1_005, id: 6 }), [2])
      t.same(await ids({ user: 'alice', action: 'push' }), [])
      t.same(await ids({ user: 'bob' }, 2), [6, 5])
      t.same(await ids({ user: 'bob' }, 2, { time: 1_004, id: 5 }), [2, 1])
    })

    t.test('stores who did what, from where and when', async (t) => {
      t.capture(Date, 'now', () => 1_700_000_000_123)
      const logged: AuditLine[] = []
      const { store } = await openTestStore(t, database, { onEvent: (line) => logged.push(line) })
      await record(store, locked, pushed)
      const lines = await listEvents(store)
      t.same(lines, [
        {
          id: 1,
          time: '2023-11-14T22:13:20.123Z',
          actor: 'administrator',
          user: 'Alice',
          subject: 'Alice',
          token_id: null,
          token_name: null,
          address: null,
          action: 'user.locked',
          object: 'Alice',
          details: { sessions: 2 },
        },
        {
          id: 2,
          time: '2023-11-14T22:13:20.123Z',
          actor: 'user',
          user: 'bob',
          subject: null,
          token_id: 'f00d',
          token_name: 'CI',
          address,
          action: 'push',
          object: 'Acme/Rocket',
          details: pushed.details,
        },
      ])
      t.same(logged, lines, 'the same lines are logged')
    })

    t.test('an event exists if and only if its transaction was committed', async (t) => {
      const logged: AuditLine[] = []
      const { store } = await openTestStore(t, database, { onEvent: (line) => logged.push(line) })
      const failed = store.audit.transaction(ADMINISTRATOR, async (change) => {
        await change.record(locked)
        throw new Error('changed my mind')
      })
      await t.rejects(failed, { message: 'changed my mind' })
      t.same([await listEvents(store), logged], [[], []])
    })

    t.test('what is stored stays so, also if whoever receives its events fails', async (t) => {
      const warnings: unknown[] = []
      t.capture(process, 'emitWarning', (warning: unknown) => warnings.push(warning))
      const { store } = await openTestStore(t, database, {
        onEvent() {
          throw new Error('the log is full')
        },
      })
      const transact: Transact<Administrator> = (work) => store.audit.transaction(ADMINISTRATOR, work)
      const kind = { visibility: 'public', objectFormat: 'sha1' } as const
      const [created] = await createRepositories(transact, store, [{ owner: 'acme', name: 'one', ...kind }])
      t.ok(existsSync(created?.path ?? ''), 'a repository has its files')
      t.equal((await listEvents(store)).length, 2)
      t.match(warnings, [/the log is full/, /the log is full/])
    })

    t.test('a query beside the transaction that it belongs to fails, and does not wait for it', async (t) => {
      const { store } = await openTestStore(t, database)
      const find = store.audit.transaction(ADMINISTRATOR, () => store.users.find('alice'))
      await t.rejects(find, { message: /must run in it/ })
      const report = { repositoryId: 1, sha: 'a'.repeat(40), context: 'ci', state: 'success' } as const
      const queries: Record<string, () => Promise<unknown>> = {
        'a read': () => store.failures.find(address),
        'a cached read': () => store.rules.load(1),
        'a write': () => store.statuses.report(report),
        'a probe': () => store.ping(),
      }
      // One that waits fails by a limit of time, with another message.
      for (const [what, query] of Object.entries(queries)) {
        const beside = store.audit.transaction(ADMINISTRATOR, query)
        await t.rejects(beside, { message: /must run in it/ }, what)
      }
      await store.audit.transaction(ADMINISTRATOR, (change) => change.record(locked))
      t.equal((await listEvents(store)).length, 1, 'later ones go on')
      const ended = Promise.withResolvers<void>()
      const { after } = await store.audit.transaction(ADMINISTRATOR, async () => ({
        after: ended.promise.then(() => store.users.list()),
      }))
      ended.resolve()
      t.same(await after, [], 'as does what it began, once it has ended')
    })

    t.test('finds events by time, user and repository', async (t) => {
      const { store } = await openTestStore(t, database)
      let now = 1_000
      t.capture(Date, 'now', () => now)
      await record(store, locked)
      now = 2_000
      await record(store, pushed)
      const actions = async (filter: AuditFilter) =>
        (await listEvents(store, filter)).map(({ action }) => action)
      t.same(await actions({ since: 2_000 }), ['push'])
      t.same(await actions({ user: 'aLICE' }), ['user.locked'])
      t.same(await actions({ user: 'bob', since: 2_001 }), [])
      t.same(await actions({ repository: 'ACME/rocket' }), ['push'])
      t.same(await actions({ repository: 'acme/rocket', user: 'alice' }), [])
    })

    t.test('finds what was done with a token and to it', async (t) => {
      const { store } = await openTestStore(t, database)
      const [first, second] = ['1', '2'].map((digit) => digit.repeat(16))
      assert(first && second)
      const token = { by: ADMINISTRATOR, token: 'CI', subject: bob } as const
      const rotation = { id: second, replaced: first, expires_at: null, replaced_expires_at: null }
      await record(
        store,
        { ...token, action: 'token.created', details: { id: first, scopes: [], expires_at: null } },
        { ...pushed, by: { ...ci, token: { id: first, name: 'CI' } } },
        { ...token, action: 'token.rotated', details: rotation },
        { ...shared, by: { ...ci, token: { id: second, name: 'CI' } } },
        { ...pushed, by: { ...ci, token: { id: '3'.repeat(16), name: 'laptop' } } },
      )
      const ids = async (token: string) => (await listEvents(store, { token })).map(({ id }) => id)
      t.same(await ids(first), [1, 2, 3])
      t.same(await ids(second), [3, 4])
      t.same(await ids('CI'), [1, 2, 3, 4])
      t.same(await ids('laptop'), [5])
    })

    t.test('finds what a user did, and what was done to a user', async (t) => {
      const { store } = await openTestStore(t, database)
      await record(store, locked, shared, pushed, locked, shared)
      const ids = async (filter: AuditFilter) => (await listEvents(store, filter)).map(({ id }) => id)
      t.same(
        [await ids({ user: 'BOB' }), await ids({ user: 'alice' })],
        [
          [2, 3, 5],
          [1, 2, 4, 5],
        ],
      )
      t.match((await listEvents(store))[1], { actor: 'user', user: 'bob', subject: 'Alice' })
      const latest = await store.auditLog.latest(alice, 3)
      t.match(latest, [{ id: 5 }, { id: 4 }, { id: 2 }])
      const others = { user: 'bob', address: null, token_id: null, token_name: null }
      t.match(latest[0], others, 'without the address and the token of the other')
      t.match(await store.auditLog.latest(bob, 1), [{ id: 5, address, token_name: 'CI' }])
      const before = { time: Date.parse(latest[1]?.time ?? ''), id: 4 }
      t.match(await store.auditLog.latest(alice, 3, before), [{ id: 2 }, { id: 1 }])
    })

    t.test("a user's latest events are not those of an earlier user of that name", async (t) => {
      const operator = { account: 'root', sudo_user: 'mallory' }
      const { store } = await openTestStore(t, database, { operator })
      const lock = (sessions: number, subject = alice): Done => {
        return { by: ADMINISTRATOR, action: 'user.locked', subject, details: { sessions } }
      }
      const earlier = { id: 9, name: 'Alice' }
      await record(store, lock(1), lock(2), lock(3), lock(4, earlier), { ...shared, subject: earlier })
      const [third, second] = await store.auditLog.latest(alice, 2)
      t.same([third?.details, second?.details], [{ sessions: 3 }, { sessions: 2 }], 'without accounts')
      t.same((await listEvents(store))[0]?.details, { sessions: 1, ...operator })
      const before = { time: Date.parse(second?.time ?? ''), id: second?.id ?? 0 }
      t.match(await store.auditLog.latest(alice, 2, before), [{ details: { sessions: 1 } }])
    })

    t.test('reads and prunes more events than one batch, and records that', async (t) => {
      const { store } = await openTestStore(t, database)
      let now = 1_000
      t.capture(Date, 'now', () => now)
      await record(store, ...Array.from({ length: 1_500 }, () => locked))
      now = 5_000
      await record(store, pushed)
      t.equal((await listEvents(store)).length, 1_501)
      t.equal(await asAdministrator(store).auditLog.prune(5_000), 1_500)
      t.match(await listEvents(store), [
        { action: 'push' },
        { action: 'audit.pruned', actor: 'administrator', details: { before: '1970-01-01T00:00:05.000Z' } },
      ])
      t.equal(await asAdministrator(store).auditLog.prune(5_000), 0)
      t.equal((await listEvents(store)).length, 2, 'what removes nothing is no event')
    })

    t.test('follows new events, also one that is committed after a later one', async (t) => {
      const { store } = await openTestStore(t, database, { poolSize: 20 })
      await record(store, locked)
      const [recorded, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      let late = Promise.resolve()
      const steps = [
        () => record(store, pushed),
        async () => {
          // SQLite commits one transaction after the other.
          if (database.name === 'SQLite') return record(store, pushed)
          late = store.audit.transaction(ADMINISTRATOR, async (change) => {
            await change.record(pushed)
            recorded.resolve()
            await release.promise
          })
          await recorded.promise
        },
        () => record(store, locked),
        async () => {
          release.resolve()
          await late
        },
      ]
      const ids: number[] = []
      for await (const lines of store.auditLog.follow({}, async () => steps.shift()?.())) {
        ids.push(...lines.map(({ id }) => id))
        if (ids.length === 4 || steps.length === 0) break
      }
      t.same(ids, database.name === 'SQLite' ? [1, 2, 3, 4] : [1, 2, 4, 3])
    })

    t.test('the size of an event is bounded, and any text can be stored', async (t) => {
      const { store } = await openTestStore(t, database)
      const name = `\0\ud800${'🚀'.repeat(300)}`
      const updates = Array.from({ length: 1_000 }, () => ({ ref: name, old: '0', new: '1' }))
      const details = { id: 'f00d', scopes: [], expires_at: null }
      await record(
        store,
        { by: ci, action: 'token.created', token: name, subject: bob, details },
        { by: ci, action: 'push', repository: { id: 1, name: 'acme/rocket' }, details: { updates } },
      )
      const shown = `\ufffd\ufffd${'🚀'.repeat(252)}…`
      t.match(await listEvents(store), [
        { object: shown, details },
        { details: { omitted: /^\d+ characters$/ } },
      ])
    })

    t.test('an event whose details are damaged can still be listed', async (t) => {
      const { store } = await openTestStore(t, database)
      await record(store, locked)
      await store.engine.kysely.updateTable('audit_events').set({ details: '{' }).execute()
      t.match(await listEvents(store), [{ action: 'user.locked', details: { unreadable: '{' } }])
    })
  })
}
