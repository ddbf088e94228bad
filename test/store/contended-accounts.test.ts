import { sql } from 'kysely'
import { test } from 'tap'
import { createToken, hashToken } from '../../src/auth/token.ts'
import type { SignedIn, TokenHolder } from '../../src/domain/actors.ts'
import { chooseDefaultBranch, followPushes } from '../../src/repositories/default-branch.ts'
import { asAdministrator } from '../helpers/changes.ts'
import {
  attack,
  chain,
  eventsOf,
  type Fixture,
  isLinked,
  KIND,
  openTwo,
  type Work,
  winners,
} from '../helpers/contention.ts'
import { databases, postgres } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { git } from '../helpers/git.ts'
import { addReport, addRepository, addToken } from '../helpers/records.ts'
import { signIn } from '../helpers/sessions.ts'

/** Returns what two servers do at once, each with its own changes. */
async function settle({ stores }: Fixture, work: (side: 0 | 1) => Promise<unknown>) {
  return (await Promise.allSettled(stores.map((_, side) => work(side === 0 ? 0 : 1)))).map(
    ({ status }) => status,
  )
}

const rotation = () => ({
  prefix: 'cst_1',
  hash: hashToken(createToken()),
  expiresAt: () => null,
  oldExpiresAt: Date.now() + 3_600_000,
})

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('the default branch: one of two wins, and HEAD is what the last event says', async (t) => {
      const fixture = await openTwo(t, database)
      const one = await addRepository(fixture.stores[0], 'acme/one')
      for (const name of ['b0', 'b1', 'b2']) git(one.path, 'branch', name, 'main')
      const head = () => git(one.path, 'symbolic-ref', 'HEAD').replace('refs/heads/', '')
      for (let round = 0; round < fixture.rounds; round++) {
        const expected = head()
        const [first, second] = ['b0', 'b1', 'b2'].filter((name) => name !== expected)
        const set = await winners(fixture, (_, side) => {
          const { audit, repositories } = fixture.stores[side === 0 ? 0 : 1]
          return chooseDefaultBranch(
            (work) => audit.transaction({ kind: 'administrator' }, work),
            { repositories },
            one,
            (side === 0 ? first : second) ?? '',
            expected,
          )
        })
        t.equal(set, 1, `round ${round}`)
        const follows = round % 2 === 0
        const following = await winners(fixture, (_, side) => {
          const { audit, repositories } = fixture.stores[side === 0 ? 0 : 1]
          return followPushes(
            (work) => audit.transaction({ kind: 'administrator' }, work),
            { repositories },
            one,
            follows,
          )
        })
        t.equal(following, 2)
      }
      const all = await eventsOf(fixture, 'repository.default-branch')
      t.equal(all.filter(({ details }) => 'follows' in details).length, fixture.rounds, 'one of two does it')
      const events = all.filter(({ details }) => 'to' in details)
      const [first, ...links] = chain(events, ({ to }) => to)
      t.equal(first?.[0], '"main"')
      t.ok(links.every(isLinked), `${links.filter((link) => !isLinked(link))}`)
      t.same([events.length, events.at(-1)?.details.to], [fixture.rounds, head()])
    })

    t.test('many names that are created in any order wait for nobody', async (t) => {
      const fixture = await openTwo(t, database)
      for (let round = 0; round < fixture.rounds / 4; round++) {
        const names = Array.from({ length: 300 }, (_, index) => `r${round}-${index}`)
        const inOrder = (side: number) => (side === 0 ? names : names.toReversed())
        const owned = await winners(fixture, ({ repositories }, side) =>
          repositories.createAll(inOrder(side).map((owner) => ({ owner, name: `s${side}`, ...KIND }))),
        )
        const users = await winners(fixture, ({ users }, side) =>
          users.createAll(inOrder(side).map((name) => ({ name: `u${name}` }))),
        )
        t.same([owned, users], [2, 1], `round ${round}`)
      }
      const groups = (await listEvents(fixture.stores[0])).filter(({ action }) => action === 'group.created')
      t.equal(new Set(groups.map(({ object }) => object)).size, groups.length, 'each is created once')
    })

    t.test(
      'whoever can write a configuration is trusted by one of two, or the repository deleted',
      async (t) => {
        const fixture = await openTwo(t, database)
        const [store] = fixture.stores
        const write = asAdministrator(store)
        for (let round = 0; round < fixture.rounds; round++) {
          const names = [fixture.name(), fixture.name()]
          const create = (name: string) =>
            write.repositories.create({ owner: 'acme', name, path: `/srv/${name}`, ...KIND })
          const [trusted, deleted] = [await create(names[0] ?? ''), await create(names[1] ?? '')]
          t.equal(await winners(fixture, ({ repositories }) => repositories.trustOwner(trusted.id)), 2)
          const results = await attack(fixture, ({ repositories }, side) =>
            side === 0 ? repositories.delete(deleted) : repositories.trustOwner(deleted.id),
          )
          t.equal(results[0]?.status, 'fulfilled', `round ${round}`)
        }
        const events = (await listEvents(store)).filter(({ action }) => action.startsWith('repository.'))
        const isTrust = ({ details }: (typeof events)[number]) => 'trust_owner' in details
        for (const { object } of events.filter(({ action }) => action === 'repository.imported')) {
          const own = events.filter((event) => event.object === object)
          const trust = own.findIndex(isTrust)
          const end = own.findIndex(({ action }) => action === 'repository.deleted')
          t.ok(own.filter(isTrust).length <= 1 && (end < 0 || trust < end), `${object}`)
        }
        t.equal(events.filter(({ object }) => object?.startsWith('/')).length, 0)
      },
    )

    t.test('a token is rotated or revoked', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const ann = await asAdministrator(store).users.create('ann')
      for (let round = 0; round < fixture.rounds; round++) {
        const { id } = await addToken(store, ann.id)
        const rotated = await winners(fixture, ({ tokens }) => tokens.rotate(id, rotation()))
        t.equal((await store.tokens.list(ann.id)).length, 1 + rotated, `${rotated} secrets were replaced`)
        const revoked = await attack(fixture, ({ tokens }, side) =>
          side === 0 ? tokens.revoke(id) : tokens.rotate(id, rotation()),
        )
        t.equal(revoked[0]?.status, 'fulfilled')
        const left = (await store.tokens.list(ann.id)).map((token) => token.id)
        t.notOk(left.includes(id), `round ${round}`)

        const other = await addToken(store, ann.id)
        const ended = await attack(fixture, ({ tokens }, side) =>
          side === 0 ? tokens.revokeAll(ann.id) : tokens.rotate(other.id, rotation()),
        )
        t.equal(ended[0]?.status, 'fulfilled')
        t.same(await store.tokens.list(ann.id), [], `no secret is left in round ${round}`)
        for (let index = 0; index < 3; index++) await addToken(store, ann.id)
        t.equal(await winners(fixture, ({ tokens }) => tokens.revokeAll(ann.id)), 2)
      }
      const events = await listEvents(store)
      const revoked = events.filter(({ action }) => action === 'token.revoked')
      t.equal(new Set(revoked.map(({ details }) => details.id)).size, revoked.length, 'each is revoked once')
    })

    t.test('an owner has at most 1,000 repositories, and a repository 20 reservations', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const write = asAdministrator(store)
      const ann = await write.users.create('ann')
      const by = await signIn(store, ann)
      await write.repositories.createAll(
        Array.from({ length: 999 }, (_, index) => ({ owner: 'ann', name: `r${index}`, ...KIND })),
      )
      const count = async () =>
        Number(
          (
            await sql<{
              count: number
            }>`select count(*) as count from repositories where owner_key = 'ann'`.execute(
              store.engine.kysely,
            )
          ).rows[0]?.count,
        )
      for (let round = 0; round < fixture.rounds; round++) {
        const created = await settle(fixture, (side) => {
          const { audit, repositories } = fixture.stores[side]
          const wanted = { owner: 'ann', name: `new-${side}`, ...KIND }
          return audit.transaction(by, (change) => repositories.create(change, wanted))
        })
        t.same([created.toSorted(), await count()], [['fulfilled', 'rejected'], 1_000], `round ${round}`)
        await write.repositories.delete({
          owner: 'ann',
          name: created[0] === 'fulfilled' ? 'new-0' : 'new-1',
        })
      }

      const one = { owner: 'ann', name: 'r0' }
      for (let index = 0; index < 19; index++) await write.reservations.set(one, `p${index}`, [ann])
      for (let round = 0; round < fixture.rounds; round++) {
        const set = await settle(fixture, (side) => {
          const { audit, reservations } = fixture.stores[side]
          return audit.transaction(by, (change) => reservations.set(change, one, `new-${side}`, [ann]))
        })
        t.same(set.toSorted(), ['fulfilled', 'rejected'], `round ${round}`)
        const same = await winners(fixture, ({ reservations }) =>
          reservations.set(one, set[0] === 'fulfilled' ? 'new-0' : 'new-1', null),
        )
        t.equal(same, 1)
      }
    })

    t.test('a session or a token is lost before or after what it allows', async (t) => {
      const fixture = await openTwo(t, database)
      const [store, other] = fixture.stores
      const write = asAdministrator(store)
      const ann = await write.users.create('ann')
      const one = { owner: 'ann', name: 'one' }
      const { id } = await write.repositories.create({ ...one, ...KIND })
      const status = await addReport({ store, repositoryId: id, sha: 'a'.repeat(40) }, 'ci')
      /** Loses what lets `by` act. */
      const losses = {
        'sign-out': (by: SignedIn) => store.audit.transaction(by, (change) => store.sessions.signOut(change)),
        'all sessions': () =>
          store.audit.transaction({ kind: 'administrator' }, (change) => store.sessions.endAll(change, ann)),
        password: async () => write.users.setPassword(await store.users.get('ann'), fixture.name()),
        'another session': async (by: SignedIn) => {
          const others = await signIn(store, ann)
          return store.audit.transaction(others, (change) =>
            store.sessions.endOwn(change, by.session.slice(0, 16)),
          )
        },
      }
      for (const [loss, lose] of Object.entries(losses))
        for (let round = 0; round < fixture.rounds; round++) {
          const by = await signIn(store, ann)
          const rule = { refPattern: 'main', required: [`ci/${loss}/${round}`], bypass: [] }
          const before = (await listEvents(store)).length
          const [set, lost] = await Promise.allSettled([
            other.audit.transaction(by, (change) => other.rules.set(change, one, rule)),
            lose(by),
          ])
          t.equal(lost.status, 'fulfilled', loss)
          const actions = (await listEvents(store)).slice(before).map(({ action }) => action)
          const changed = actions.indexOf('rule.set')
          const ended = actions.findIndex((action) => action !== 'rule.set')
          t.equal(changed >= 0, set.status === 'fulfilled', `${loss}, round ${round}: ${actions}`)
          t.ok(changed < ended, `${loss}, round ${round}: ${actions}`)
        }

      for (let round = 0; round < fixture.rounds; round++) {
        const token = await addToken(store, ann.id)
        const by: TokenHolder = {
          kind: 'user',
          user: ann,
          address: '192.0.2.1',
          token: { id: token.id, name: 'test' },
        }
        const before = (await listEvents(store)).length
        const refusal = { action: 'rule.bypassed', repository: { id, name: 'ann/one' } } as const
        const update = { ref: 'refs/heads/main', old: '0', new: '1' }
        const [used] = await Promise.allSettled([
          other.audit.transaction(by, (change) =>
            change.record({ ...refusal, details: { ...update, reason: status?.id ?? '' } }),
          ),
          write.tokens.revoke(token.id),
        ])
        const actions = (await listEvents(store)).slice(before).map(({ action }) => action)
        const expected = used.status === 'fulfilled' ? ['rule.bypassed', 'token.revoked'] : ['token.revoked']
        t.same(actions, expected, `round ${round}`)
      }
    })

    t.test('a user is deleted, and the repositories given away, beside everything else', async (t) => {
      const fixture = await openTwo(t, database)
      const [store] = fixture.stores
      const write = asAdministrator(store)
      await write.groups.create('heirs')
      /** What another server does to the user `from`, who owns FROM/one, or to the heir `to`. */
      const beside: Record<string, (...names: [from: string, to: string]) => Work> = {
        'the same': (from, to) => (write) => write.users.delete(from, to),
        'a new repository': (owner) => (write) => write.repositories.create({ owner, name: 'two', ...KIND }),
        'a rename': (owner) => (write) =>
          write.repositories.rename({ owner, name: 'one' }, { owner: 'heirs', name: fixture.name() }),
        'the same name': (_, owner) => (write) => write.repositories.create({ owner, name: 'one', ...KIND }),
        'the end of the heir': (_, to) => (write) => write.groups.delete(to),
        'a deletion': (owner) => (write) => write.repositories.delete({ owner, name: 'one' }),
        'a grant': (owner) => async (write) => {
          const { id } = await store.users.get(owner)
          await write.members.set('heirs', id, 'admin')
        },
        'a token': (owner) => async () => addToken(store, (await store.users.get(owner)).id),
      }
      for (const [what, workOf] of Object.entries(beside))
        for (let round = 0; round < fixture.rounds / 4; round++) {
          const [from, to] = [fixture.name(), fixture.name()]
          const { id } = await write.users.create(from)
          await write.groups.create(to)
          await write.repositories.create({ owner: from, name: 'one', ...KIND })
          const work = workOf(from, to)
          const results = await attack(fixture, (write, side) =>
            side === 0 ? write.users.delete(from, to) : work(write, side),
          )
          const done = results.map(({ status }) => status === 'fulfilled')
          const where = `${what}, round ${round}: ${done}`
          const names = (await store.repositories.list()).map(({ owner, name }) => `${owner}/${name}`)
          const isGone = (await store.users.find(from)) === undefined
          t.ok(done[0] || done[1], where)
          t.equal(isGone, done[0] || (what === 'the same' && done[1]), where)
          if (what === 'the same') t.ok(done[0] !== done[1], where)
          if (isGone && what !== 'a new repository')
            t.notOk(
              names.some((name) => name.startsWith(`${from}/`)),
              where,
            )
          if (what === 'the same name') t.equal(names.includes(`${to}/one`), true, where)
          if (what === 'the end of the heir') t.ok(done[0] !== done[1], where)
          const { rows } = await sql`select 1 from tokens where user_id = ${id}
            union all select 1 from members where user_id = ${id}`.execute(store.engine.kysely)
          if (isGone) t.same(rows, [], where)
        }
    })
  })
}

test('reports wait for nothing that accounts and repositories are changed by', async (t) => {
  const { stores } = await openTwo(t, postgres)
  const [store, other] = stores
  const write = asAdministrator(store)
  const one = { owner: 'acme', name: 'one' }
  const { id: repositoryId } = await write.repositories.create({ ...one, path: '/srv/one', ...KIND })
  const ann = await write.users.create('ann')
  const { id: tokenId } = await addToken(store, ann.id)
  const held = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const change = store.audit.transaction({ kind: 'administrator' }, async (change) => {
    await store.members.set(change, 'acme', ann.id, 'admin')
    await store.users.setPassword(change, ann, 'hash')
    await store.tokens.rotate(change, tokenId, rotation())
    await store.repositories.recordDefaultBranch(change, one, { from: null, to: 'main' })
    await store.repositories.trustOwner(change, repositoryId)
    await store.reservations.set(change, one, 'ci/*', [ann])
    await store.repositories.create(change, { owner: 'acme', name: 'two', ...KIND })
    begun.resolve()
    await held.promise
  })
  await begun.promise
  // Each would wait until the change ends, which waits for them.
  for (const context of ['one', 'two', 'one'])
    t.match(await addReport({ store: other, repositoryId, sha: 'a'.repeat(40) }, context), { context })
  held.resolve()
  await change
})
