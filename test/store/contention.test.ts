import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { test } from 'tap'
import { ADMINISTRATOR, type SignedIn } from '../../src/domain/actors.ts'
import type { Permission } from '../../src/domain/permissions.ts'
import { ServiceError } from '../../src/errors.ts'
import type { Change } from '../../src/store/audit/change.ts'
import { ruleState } from '../../src/store/repositories/rules.ts'
import { asAdministrator } from '../helpers/changes.ts'
import {
  attack,
  chain,
  eventsOf,
  isLinked,
  KIND,
  openTwo,
  type Work,
  winners,
} from '../helpers/contention.ts'
import { databases, postgres } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { addReport, addToken } from '../helpers/records.ts'
import { insertSession } from '../helpers/sessions.ts'

const SHA = 'a'.repeat(40)

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('rules: one of two wins, and limits hold', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const one = { owner: 'acme', name: 'one' }
      const { id } = await asAdministrator(store).repositories.create({ ...one, ...KIND })
      const state = async () => {
        const rule = (await store.rules.load(id)).find(({ refPattern }) => refPattern === 'main')
        return ruleState(rule ?? null)
      }
      const rule = (...required: string[]) => ({ refPattern: 'main', required, bypass: [] })
      for (let round = 0; round < fixture.rounds; round++) {
        const expected = await state()
        const set = await winners(fixture, (write, side) =>
          write.rules.set(one, rule(`ci/${round}-${side}`), expected),
        )
        t.equal(set, 1, `round ${round}`)
        if (round % 4 !== 3) continue
        const now = await state()
        const removed = await winners(fixture, (write, side) =>
          side === 0 ? write.rules.remove(one, 'main', now) : write.rules.set(one, rule('ci'), now),
        )
        t.equal(removed, 1, `removed or set in round ${round}`)
      }
      const events = (await listEvents(store)).filter(({ action }) => action.startsWith('rule.'))
      const links = chain(events, ({ required, bypass }) => (required ? { required, bypass } : null))
      t.ok(links.every(isLinked), `${links.filter((link) => !isLinked(link))}`)

      for (let round = 0; round < fixture.rounds; round++) {
        const name = fixture.name()
        const { id } = await asAdministrator(store).repositories.create({ owner: 'acme', name, ...KIND })
        const patterns = (count: number) => Array.from({ length: count }, (_, index) => `ci/${index}`)
        for (const refPattern of ['a', 'b', 'c', 'd', 'e'])
          await asAdministrator(store).rules.set(
            { owner: 'acme', name },
            { refPattern, required: patterns(19), bypass: [] },
          )
        const set = await winners(fixture, (write, side) =>
          write.rules.set(
            { owner: 'acme', name },
            { refPattern: `f${side}`, required: patterns(3), bypass: [] },
          ),
        )
        const rules = await store.rules.load(id)
        t.same([set, rules.reduce((sum, { required }) => sum + required.length, 0)], [1, 98])
      }
    })

    t.test('access: one of two wins', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const write = asAdministrator(store)
      const one = { owner: 'acme', name: 'one' }
      await write.repositories.create({ ...one, ...KIND })
      const { id } = await write.users.create('ann')
      const kinds: ('collaborators' | 'members')[] = ['collaborators', 'members']
      for (const kind of kinds) {
        const all: readonly [Permission, Permission, Permission] = ['read', 'write', 'admin']
        let expected = 'none'
        for (let round = 0; round < fixture.rounds; round++) {
          const wanted = all.filter((permission) => permission !== expected)
          const set = await winners(fixture, (write, side) => {
            const permission = wanted[side] ?? null
            return kind === 'collaborators'
              ? write.collaborators.set(one, id, permission, expected)
              : write.members.set('acme', id, permission, expected)
          })
          t.equal(set, 1, `${kind}, round ${round}`)
          const lists = { collaborators: store.collaborators.list(one), members: store.members.list('acme') }
          const entry = (await lists[kind]).find(({ user }) => user === 'ann')
          expected = entry?.permission ?? 'none'
        }
        await (kind === 'collaborators' ? write.collaborators.set(one, id, null) : undefined)
      }
      for (const action of ['repository.access', 'group.member']) {
        const events = await eventsOf(fixture, action)
        const [first, ...links] = chain(events, ({ access }) => access)
        t.equal(first?.[0], '"none"')
        t.ok(links.length >= fixture.rounds - 1 && links.every(isLinked), `${action}: ${links}`)
      }
    })

    t.test('many grants in any order wait for nobody', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const write = asAdministrator(store)
      const repositories = ['a', 'a-b', 'b'].map((owner) => ({ owner, name: 'one' }))
      for (const repository of repositories) await write.repositories.create({ ...repository, ...KIND })
      const users = await Promise.all(['ann', 'ben'].map((name) => write.users.create(name)))
      for (let round = 0; round < fixture.rounds; round++) {
        const grants = repositories.flatMap((subject) =>
          users.map(({ id }) => ({ subject, userId: id, permission: round % 2 ? null : ('read' as const) })),
        )
        const set = winners(fixture, (write, side) =>
          write.collaborators.setAll(side === 0 ? grants : grants.toReversed()),
        )
        t.equal(await set, 2)
      }
    })

    t.test('names: one of two gets or gives one', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const write = asAdministrator(store)
      await write.groups.create('acme')
      await write.groups.create('umbrella')
      for (let round = 0; round < fixture.rounds; round++) {
        const [from, to, user, group] = [fixture.name(), fixture.name(), fixture.name(), fixture.name()]
        const created = { owner: 'acme', name: from }
        const create = await winners(fixture, ({ repositories }) =>
          repositories.create({ ...created, ...KIND }),
        )
        const renamed = await winners(fixture, ({ repositories }, side) =>
          repositories.rename(created, { owner: side === 0 ? 'acme' : 'umbrella', name: to }),
        )
        const released = await winners(fixture, ({ reservedNames }) => reservedNames.release(created))
        const users = await winners(fixture, ({ users, groups }, side) =>
          side === 0 ? users.create(user) : groups.create(user),
        )
        const groups = await winners(fixture, ({ groups }) => groups.create(group))
        const used = await winners(fixture, ({ groups, repositories }, side) =>
          side === 0
            ? groups.delete(group)
            : repositories.create({ owner: group.toUpperCase(), name: 'x', ...KIND }),
        )
        const last = await winners(fixture, ({ groups, users }, side) =>
          side === 0 ? groups.delete(fixture.name()) : users.create(`${group}-2`),
        )
        t.same([create, renamed, released, users, groups, last], [1, 1, 1, 1, 1, 1], `round ${round}`)
        t.ok(used >= 1)
        const owned = await sql<{ count: number }>`select count(*) as count from repositories
          where owner_id not in (select id from owners)`.execute(store.engine.kysely)
        t.equal(Number(owned.rows[0]?.count), 0)
      }
    })

    t.test('a group that is deleted while a user takes its name', async (t) => {
      const fixture = await openTwo(t, database)
      for (let round = 0; round < fixture.rounds; round++) {
        const name = fixture.name()
        await asAdministrator(fixture.stores[0]).groups.create(name)
        const results = await attack(fixture, ({ groups, users }, side) =>
          side === 0 ? groups.delete(name) : users.create(name, { ownExisting: true }),
        )
        t.equal(results[1]?.status, 'fulfilled', `round ${round}`)
        const user = await fixture.stores[0].users.get(name)
        t.match(await fixture.stores[0].groups.find(name, user.id), { isGroup: false, permission: 'admin' })
      }
    })

    t.test('the number of repositories and of reserved names has a limit', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const { kysely } = store.engine
      await asAdministrator(store).groups.create('acme')
      const owner = await store.groups.find('acme', null)
      const numbers = (size: number) =>
        sql.raw(
          `with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < ${size})`,
        )
      await sql`${numbers(99)} insert into reserved_names (owner_id, name, name_key, repository_id, created_at)
        select ${owner?.id}, 'r' || i, 'r' || i, -1, 0 from numbers`.execute(kysely)
      for (let round = 0; round < fixture.rounds; round++) {
        const names = [fixture.name(), fixture.name()]
        for (const name of names)
          await asAdministrator(store).repositories.create({ owner: 'acme', name, ...KIND })
        const renamed = await winners(fixture, ({ repositories }, side) => {
          const from = { owner: 'acme', name: names[side] ?? '' }
          return repositories.rename(from, { owner: 'acme', name: `${from.name}-2` })
        })
        t.equal(renamed, 1)
        const released = await store.reservedNames.list('acme')
        t.equal(released.length, 100)
        const own = released.find(({ name }) => names.some((own) => name === `acme/${own}`))
        await asAdministrator(store).reservedNames.release({
          owner: 'acme',
          name: own?.name.split('/')[1] ?? '',
        })
      }
    })

    t.test('users: one of two changes one', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const changed = async (work: Work) => {
        const results = await attack(fixture, work)
        return results.filter((result) => result.status === 'fulfilled' && result.value !== null).length
      }
      for (let round = 0; round < fixture.rounds; round++) {
        const [ann, ben] = [fixture.name(), fixture.name()]
        for (const name of [ann, ben]) await asAdministrator(store).users.create(name)
        const locked = await changed(({ users }) => users.setLocked(ann, true))
        const account = { issuer: 'https://id.example.org', subject: ann }
        const linkedTo = await changed(({ users }, side) => users.link(side === 0 ? ann : ben, account))
        const both = { issuer: 'https://id.example.org', subject: ben }
        const carol = await asAdministrator(store).users.create(fixture.name())
        const linked = await changed(({ users }, side) =>
          users.link(carol.name, { ...both, subject: `${both.subject}-${side}` }),
        )
        const password = await changed(({ users }, side) => users.setPassword(carol, `hash-${side}`))
        const { id } = await addToken(store, carol.id)
        const revoked = await changed(({ tokens }) => tokens.revoke(id))
        const deleted = await changed(({ users }) => users.delete(ben))
        t.same([locked, linkedTo, linked, password, revoked, deleted], [1, 1, 1, 1, 1, 1], `round ${round}`)
      }
      for (const action of ['user.locked', 'password.set', 'token.revoked', 'user.deleted'])
        t.equal((await eventsOf(fixture, action)).length, fixture.rounds, action)
    })

    t.test('a repository is deleted or changed', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      for (let round = 0; round < fixture.rounds; round++) {
        const one = { owner: 'acme', name: fixture.name() }
        await asAdministrator(store).repositories.create({ ...one, ...KIND })
        const private_ = await attack(fixture, ({ repositories }, side) =>
          side === 0 ? repositories.delete(one) : repositories.setVisibility(one, 'public', 'private'),
        )
        t.equal(private_[0]?.status, 'fulfilled')
        const two = { owner: 'acme', name: fixture.name() }
        await asAdministrator(store).repositories.create({ ...two, ...KIND })
        t.equal(await winners(fixture, ({ repositories }) => repositories.delete(two)), 1)
      }
      const events = (await listEvents(store)).map(({ action, object }) => `${action} ${object}`)
      const deleted = events.filter((event) => event.startsWith('repository.deleted'))
      t.equal(deleted.length, fixture.rounds * 2)
      for (const event of deleted) {
        const changed = event.replace('deleted', 'visibility')
        t.ok(!events.includes(changed) || events.indexOf(changed) < events.indexOf(event), event)
      }
    })

    t.test('a right is lost before or after what it allows', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const write = asAdministrator(store)
      const { id } = await write.users.create('ann')
      const user = { id, name: 'ann' }
      const one = { owner: 'acme', name: 'one' }
      await write.repositories.create({ ...one, ...KIND })
      const gives = {
        membership: () => write.members.set('acme', id, 'admin'),
        grant: () => write.collaborators.set(one, id, 'admin'),
        account: () => write.members.set('acme', id, 'admin'),
      }
      const takes = {
        membership: () => write.members.set('acme', id, null),
        grant: () => write.collaborators.set(one, id, null),
        account: () => write.users.setLocked('ann', true),
      }
      for (const right of ['membership', 'grant', 'account'] as const) {
        for (let round = 0; round < fixture.rounds; round++) {
          await gives[right]()
          const session = fixture.name()
          await insertSession(store, session, id)
          const by: SignedIn = { kind: 'user', user, address: '192.0.2.1', session }
          const rule = { refPattern: `r${round % 5}`, required: [`ci/${round}`], bypass: [] }
          const change = (change: Change<SignedIn>) => fixture.stores[1].rules.set(change, one, rule)
          const before = (await listEvents(store)).length
          const [set] = await Promise.allSettled([
            fixture.stores[1].audit.transaction(by, change),
            takes[right](),
          ])
          const actions = (await listEvents(store)).slice(before).map(({ action }) => action)
          const lost = actions.findIndex((action) => action !== 'rule.set')
          const changed = actions.indexOf('rule.set')
          t.equal(changed >= 0, set?.status === 'fulfilled', `${right}, round ${round}`)
          t.ok(changed < lost, `${right}, round ${round}: ${actions}`)
          if (right === 'account') await write.users.setLocked('ann', false)
        }
        if (right !== 'grant') await write.members.set('acme', id, null)
      }

      await gives.membership()
      const two = { owner: 'acme', name: 'two' }
      await write.repositories.rename(one, two)
      const session = fixture.name()
      await insertSession(store, session, id)
      const by: SignedIn = { kind: 'user', user, address: '192.0.2.1', session }
      const release = () =>
        fixture.stores[1].audit.transaction(by, (change) =>
          fixture.stores[1].reservedNames.release(change, one),
        )
      const [taken, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const taking = store.audit.transaction(ADMINISTRATOR, async (change) => {
        await store.members.set(change, 'acme', id, null)
        taken.resolve()
        await end.promise
      })
      await taken.promise
      const released = release()
      released.catch(() => {})
      // Enough for a release that does not wait.
      await setTimeout(500)
      end.resolve()
      await taking
      await t.rejects(released, ServiceError, 'a name is released by who may at the end of the change')
      t.equal((await store.reservedNames.list('acme')).length, 1)
    })

    t.test('two give each other access', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const write = asAdministrator(store)
      const [ann, ben] = [await write.users.create('ann'), await write.users.create('ben')]
      for (const { name } of [ann, ben])
        await write.repositories.create({ owner: name, name: 'one', ...KIND })
      for (let round = 0; round < fixture.rounds; round++) {
        const sides = [
          [ann, ben],
          [ben, ann],
        ] as const
        const given = sides.map(async ([by, other], side) => {
          const session = fixture.name()
          await insertSession(store, session, by.id)
          const actor: SignedIn = { kind: 'user', user: by, address: '192.0.2.1', session }
          const { audit, collaborators } = fixture.stores[side === 0 ? 0 : 1]
          const permission = round % 2 ? null : 'read'
          const one = { owner: by.name, name: 'one' }
          await audit.transaction(actor, (change) => collaborators.set(change, one, other.id, permission))
        })
        await t.resolves(Promise.all(given))
      }
    })
  })
}

test('reports wait for no change', async (t) => {
  const { stores } = await openTwo(t, postgres)
  const [store, other] = stores
  const write = asAdministrator(store)
  const one = { owner: 'acme', name: 'one' }
  const { id: repositoryId } = await write.repositories.create({ ...one, ...KIND })
  const ann = await write.users.create('ann')
  const held = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const change = store.audit.transaction({ kind: 'administrator' }, async (change) => {
    await store.rules.set(change, one, { refPattern: 'main', required: ['ci'], bypass: [ann] })
    await store.collaborators.set(change, one, ann.id, 'admin')
    await store.repositories.setVisibility(change, one, 'public')
    begun.resolve()
    await held.promise
  })
  await begun.promise
  // Each would wait until the change ends, which waits for them.
  for (const context of ['one', 'two', 'one'])
    t.match(await addReport({ store: other, repositoryId, sha: SHA }, context), { context })
  held.resolve()
  await change
})

test('whoever asks for another run still may when that is stored', async (t) => {
  const { stores } = await openTwo(t, postgres)
  const [store, other] = stores
  const write = asAdministrator(store)
  const one = { owner: 'acme', name: 'one' }
  const { id } = await write.repositories.create({ ...one, ...KIND })
  const ann = await write.users.create('ann')
  await write.collaborators.set(one, ann.id, 'write')
  await insertSession(store, 'ann', ann.id)
  const status = await store.statuses.report({
    ...{ repositoryId: id, sha: SHA, context: 'ci', state: 'success' },
    ...{ run: 'R', claim: 300 },
  })
  const held = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const change = store.audit.transaction({ kind: 'administrator' }, async (change) => {
    await store.collaborators.set(change, one, ann.id, 'read')
    begun.resolve()
    await held.promise
  })
  await begun.promise
  const by: SignedIn = { kind: 'user', user: ann, address: '192.0.2.1', session: 'ann' }
  const requested = other.audit
    .transaction(by, (change) =>
      other.statuses.requestRun(change, { ...one, id }, { sha: SHA, id: status?.id ?? '' }),
    )
    .then(
      (context) => context,
      (error: unknown) => error,
    )
  // Without a lock, it would be stored by now.
  await Promise.race([requested, setTimeout(300)])
  held.resolve()
  await change
  t.match(await requested, { code: 'read_only' })
  t.match(await store.statuses.list(id, SHA), [{ state: 'success' }])
})
