import { sql } from 'kysely'
import { test } from 'tap'
import { ADMINISTRATOR, type Person, type SignedIn } from '../../src/domain/actors.ts'
import type { Change } from '../../src/store/audit/change.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import { compareWithModel } from '../helpers/access-model.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { insertSession, signIn } from '../helpers/sessions.ts'
import { watchTransactions } from '../helpers/transactions.ts'

const GROUPS = 20
const one = { owner: 'acme', name: 'one' }
const kind = { visibility: 'private', objectFormat: 'sha1' } as const

async function createUsers<const Names extends string[]>(store: Store, ...names: Names) {
  const users: Record<string, SignedIn> = {}
  for (const name of names) users[name] = await signIn(store, await asAdministrator(store).users.create(name))
  return users as { [name in Names[number]]: SignedIn }
}

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('decides as a model does, whatever has happened before', async (t) => {
      const { store } = await openTestStore(t, database)
      const seed = Date.now() % 1_000_000
      const { differences } = await compareWithModel(store, { steps: 25, seed })
      t.same(differences, [], `seed ${seed}`)
    })

    t.test('the name of an owner cannot be taken', async (t) => {
      const { store } = await openTestStore(t, database)
      const { alice } = await createUsers(store, 'alice')
      await asAdministrator(store).groups.create('Acme')
      for (const name of ['acme', 'ALICE'])
        await t.rejects(asAdministrator(store).groups.create(name), { name: 'AlreadyExists' })
      await t.rejects(asAdministrator(store).users.create('acme'), {
        name: 'Refusal',
        message: /"acme" is a group/,
      })
      const identity = { issuer: 'https://id.example.org', subject: '1' }
      await t.rejects(store.users.findOrCreate(identity, 'acme', '192.0.2.1'), { name: 'Refusal' })
      await asAdministrator(store).members.set('acme', alice.user.id, 'read')
      const view = { name: 'Acme', isGroup: true, permission: 'read' }
      t.match(await store.groups.find('ACME', alice.user.id), view, 'whatever its case')
      await t.rejects(asAdministrator(store).users.create('acme', { ownExisting: true }), {
        message: /is a group with members/,
      })
      t.match(await store.groups.list(), [{ name: 'Acme', members: 1, repositories: 0 }])

      await asAdministrator(store).repositories.create({ ...one, ...kind })
      await t.rejects(asAdministrator(store).groups.delete('acme'), { message: /owns repositories/ })
      await asAdministrator(store).members.set('acme', alice.user.id, null)
      const { id } = await asAdministrator(store).users.create('acme', { ownExisting: true })
      t.match(await store.listing.find(id, 'acme', 'one'), { permission: 'admin' })
      t.same(await store.groups.list(), [])
      await t.rejects(asAdministrator(store).groups.delete('acme'), { message: /is a user, not a group/ })
      await t.rejects(asAdministrator(store).members.set('acme', alice.user.id, 'read'), {
        message: /is a user/,
      })
    })

    t.test('of two admins who remove each other, one stays', async (t) => {
      const { store, options } = await openTestStore(t, database)
      // Another server: in one, the transactions of a test take turns.
      const other = await openStore(options)
      t.teardown(() => other.close())
      const { ann, ben, root } = await createUsers(store, 'ann', 'ben', 'root')
      const names = Array.from({ length: GROUPS }, (_, index) => `group-${index}`)
      for (const name of names) {
        await asAdministrator(store).groups.create(name)
        for (const { user } of [ann, ben]) await asAdministrator(store).members.set(name, user.id, 'admin')
      }
      for (const name of names) {
        await Promise.allSettled([
          store.audit.transaction(ann, (change) => store.members.set(change, name, ann.user.id, null)),
          other.audit.transaction(ben, (change) => other.members.set(change, name, ben.user.id, null)),
        ])
        t.equal((await store.members.list(name)).length, 1, name)
      }

      const [remaining] = await store.members.list('group-0')
      const user = remaining?.user === 'ann' ? ann : ben
      await asAdministrator(store).members.set('group-0', root.user.id, 'admin')
      await asAdministrator(store).users.setLocked('root', true)
      for (const permission of ['write', null] as const)
        await t.rejects(
          store.audit.transaction(user, (change) =>
            store.members.set(change, 'group-0', user.user.id, permission),
          ),
          {
            message: /nobody could administer group-0/,
          },
        )
      const last = { subject: 'group-0', userId: user.user.id, permission: null }
      await t.rejects(
        store.members.setAll((work) => store.audit.transaction(user, work), [last]),
        { message: /nobody could administer group-0/ },
        'many at once',
      )
      await t.rejects(
        store.audit.transaction(root, (change) => store.members.set(change, 'group-0', user.user.id, null)),
        { code: 'session_ended' },
      )
      await asAdministrator(store).members.set('group-0', user.user.id, null)
    })

    t.test('only who is admin administers', async (t) => {
      const { store } = await openTestStore(t, database)
      const users = await createUsers(store, 'admin', 'writer', 'stranger', 'locked')
      const { admin, writer, stranger, locked } = users
      const created = await asAdministrator(store).repositories.create({ ...one, ...kind })
      for (const [{ user }, permission] of [
        [admin, 'admin'],
        [writer, 'write'],
        [locked, 'admin'],
      ] as const)
        await asAdministrator(store).members.set('acme', user.id, permission)
      await asAdministrator(store).users.setLocked('locked', true)
      const rule = { refPattern: 'main', required: ['ci'], bypass: [] }
      const two = { owner: 'acme', name: 'two' }
      const changes: Record<string, (change: Change<Person>) => Promise<unknown>> = {
        create: (change) => store.repositories.create(change, { ...one, name: 'three', ...kind }),
        visibility: (change) => store.repositories.setVisibility(change, one, 'public'),
        'back to private': (change) => store.repositories.setVisibility(change, one, 'private'),
        'default branch': (change) =>
          store.repositories.recordDefaultBranch(change, created, { from: null, to: 'x' }),
        access: (change) => store.collaborators.set(change, one, writer.user.id, 'read'),
        rule: (change) => store.rules.set(change, created, rule),
        'no rule': (change) => store.rules.remove(change, created, 'main'),
        member: (change) => store.members.set(change, 'acme', writer.user.id, 'read'),
        'member again': (change) => store.members.set(change, 'acme', writer.user.id, 'write'),
        rename: (change) => store.repositories.rename(change, one, two),
        release: (change) => store.reservedNames.release(change, one),
        back: (change) => store.repositories.rename(change, two, one),
        delete: (change) => store.repositories.delete(change, one),
      }
      const run = (work: (change: Change<Person>) => Promise<unknown>, by: SignedIn) =>
        store.audit.transaction(by, work)
      // As if the user was locked between the two reads of a change.
      await insertSession(store, locked.session, locked.user.id)
      const events = (await listEvents(store)).length
      const refused = { writer, stranger, locked }
      for (const [what, change] of Object.entries(changes))
        for (const [name, by] of Object.entries(refused)) {
          if (what === 'back' || what === 'release' || what === 'no rule') continue
          await t.rejects(
            run(change, by),
            { code: name === 'locked' ? 'session_ended' : /^(not_admin|repository_unknown)$/ },
            `${what} · ${name}`,
          )
        }
      t.equal((await listEvents(store)).length, events, 'and nothing is recorded')
      for (const [what, change] of Object.entries(changes)) {
        if (what === 'release') for (const by of Object.values(refused)) await t.rejects(run(change, by))
        await t.resolves(run(change, admin), what)
      }
      const recorded = (await listEvents(store)).slice(events)
      t.ok(recorded.every(({ actor, user }) => actor === 'user' && user === 'admin'))
      t.match(
        recorded.map(({ action, object, subject, details }) => [action, object, subject, details]),
        [
          ['repository.created', 'acme/three', null, {}],
          ['repository.visibility', 'acme/one', null, { visibility: 'public', from: 'private' }],
          ['repository.visibility', 'acme/one', null, { visibility: 'private', from: 'public' }],
          ['repository.default-branch', 'acme/one', null, { from: null, to: 'x' }],
          ['repository.access', 'acme/one', 'writer', { user: 'writer', access: 'read', from: 'none' }],
          ['rule.set', 'acme/one', null, { from: null }],
          ['rule.removed', 'acme/one', null, { from: { required: ['ci'], bypass: [] } }],
          ['group.member', 'acme', 'writer', { access: 'read', from: 'write' }],
          ['group.member', 'acme', 'writer', { access: 'write', from: 'read' }],
          ['repository.renamed', 'acme/two', null, { from: 'acme/one' }],
          ['repository.name-released', 'acme/one', null, {}],
          ['repository.renamed', 'acme/one', null, { from: 'acme/two' }],
          ['repository.deleted', 'acme/one', null, {}],
        ],
      )
    })

    t.test(
      'who is admin of one repository renames it, and moves it only where the user is admin too',
      async (t) => {
        const { store } = await openTestStore(t, database)
        const { bob } = await createUsers(store, 'bob')
        await asAdministrator(store).groups.create('team')
        await asAdministrator(store).repositories.create({ ...one, ...kind })
        await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'one' }, bob.user.id, 'admin')
        const two = { owner: 'ACME', name: 'two' }
        await store.audit.transaction(bob, (change) => store.repositories.rename(change, one, two))
        t.match(await store.reservedNames.list(), [{ name: 'acme/one', repository: 'acme/two' }])
        for (const owner of ['team', 'nobody'])
          await t.rejects(
            store.audit.transaction(bob, (change) =>
              store.repositories.rename(change, two, { owner, name: 'two' }),
            ),
            { code: 'not_admin' },
            owner,
          )
        await t.rejects(
          store.audit.transaction(bob, (change) => store.reservedNames.release(change, one)),
          { code: 'not_admin' },
        )
        await store.audit.transaction(bob, (change) =>
          store.repositories.rename(change, two, { owner: 'bob', name: 'two' }),
        )
      },
    )

    t.test('what was granted to a member is listed, because it remains', async (t) => {
      const { store } = await openTestStore(t, database)
      const { bob } = await createUsers(store, 'bob')
      await asAdministrator(store).repositories.create({ ...one, ...kind })
      await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'one' }, bob.user.id, 'read')
      const list = async () =>
        (await store.collaborators.list({ owner: 'acme', name: 'one' })).map(
          ({ user, permission, reason }) => {
            return `${user} ${permission} ${reason}`
          },
        )
      for (const [permission, entries] of [
        ['read', ['bob read member', 'bob read granted']],
        ['admin', ['bob admin member', 'bob read granted']],
        [null, ['bob read granted']],
      ] as const) {
        await asAdministrator(store).members.set('acme', bob.user.id, permission)
        t.same(await list(), entries)
      }
    })

    t.test('a name that a repository had stays reserved', async (t) => {
      const { store } = await openTestStore(t, database)
      const { alice, bob } = await createUsers(store, 'alice', 'bob')
      const { id } = await asAdministrator(store).repositories.create({
        owner: 'alice',
        name: 'one',
        ...kind,
      })
      const [old, moved] = [
        { owner: 'alice', name: 'one' },
        { owner: 'acme', name: 'One' },
      ]
      await t.rejects(
        store.audit.transaction(alice, (change) =>
          store.repositories.rename(change, old, { ...moved, owner: 'bob' }),
        ),
        { code: 'not_admin' },
      )
      await t.rejects(
        store.audit.transaction(alice, (change) => store.repositories.rename(change, old, moved)),
        { code: 'not_admin' },
        'creates no group',
      )
      await asAdministrator(store).repositories.rename(old, moved)
      t.match(await store.repositories.find('ACME', 'one'), { id, owner: 'acme', name: 'One' })
      t.equal(await store.repositories.find('alice', 'one'), undefined)
      t.match(await store.reservedNames.list('ALICE'), [{ name: 'alice/one', repository: 'acme/One' }])
      const { stranger } = await createUsers(store, 'stranger')
      t.match(
        await store.reservedNames.list('alice', stranger.user.id),
        [{ name: 'alice/one', repository: null, isHidden: true }],
        'who may not read a repository sees no name of it',
      )

      const reserved = { name: 'Refusal', message: /alice\/one is reserved/ }
      await t.rejects(asAdministrator(store).repositories.create({ ...old, ...kind }), reserved)
      await asAdministrator(store).repositories.create({ owner: 'bob', name: 'one', ...kind })
      await t.rejects(
        asAdministrator(store).repositories.rename({ owner: 'bob', name: 'one' }, old),
        reserved,
      )
      await t.rejects(asAdministrator(store).repositories.rename({ owner: 'bob', name: 'one' }, moved), {
        name: 'AlreadyExists',
      })
      await asAdministrator(store).users.delete('alice')
      await t.rejects(
        asAdministrator(store).users.create('alice'),
        { message: /"alice" is a group/ },
        'so is its owner',
      )
      await asAdministrator(store).repositories.rename(
        { owner: 'bob', name: 'one' },
        { owner: 'bob', name: 'two' },
      )
      await asAdministrator(store).repositories.rename(moved, old)
      t.same(await store.reservedNames.list('alice'), [], 'it can have its name again')
      const others = [{ name: 'acme/One', repository: 'alice/one' }, { name: 'bob/one' }]
      t.match(await store.reservedNames.list(), others, 'the names of other owners stay')
      await asAdministrator(store).repositories.rename(
        { owner: 'bob', name: 'two' },
        { owner: 'bob', name: 'one' },
      )
      await asAdministrator(store).reservedNames.release({ owner: 'bob', name: 'two' })
      await asAdministrator(store).reservedNames.release(moved)
      await asAdministrator(store).repositories.create({ ...moved, ...kind })
      await t.rejects(asAdministrator(store).reservedNames.release(moved), { message: /not a reserved name/ })

      const bobs = (name: string) => ({ owner: 'bob', name })
      await store.audit.transaction(bob, (change) =>
        store.repositories.rename(change, bobs('one'), bobs('ONE')),
      )
      t.same(await store.reservedNames.list('bob'), [], 'another case is the same name')
      for (let index = 0; index < 100; index++)
        await asAdministrator(store).repositories.rename(
          bobs(index === 0 ? 'one' : `one-${index}`),
          bobs(`one-${index + 1}`),
        )
      await t.rejects(asAdministrator(store).repositories.rename(bobs('one-100'), bobs('last')), {
        message: /has 100 reserved names/,
      })
    })

    t.test('a name of a deleted user whose repositories were transferred stays reserved', async (t) => {
      const { store } = await openTestStore(t, database)
      await createUsers(store, 'alice', 'bob')
      const { id } = await asAdministrator(store).repositories.create({
        owner: 'alice',
        name: 'one',
        ...kind,
      })
      await asAdministrator(store).users.delete('alice', 'bob')
      t.match(await store.reservedNames.list('alice'), [{ name: 'alice/one', repository: 'bob/one' }])
      const identity = { issuer: 'https://id.example.org', subject: '1' }
      await t.rejects(store.users.findOrCreate(identity, 'alice', '192.0.2.1'), { name: 'Refusal' })
      await t.rejects(asAdministrator(store).repositories.create({ owner: 'alice', name: 'one', ...kind }), {
        message: /alice\/one is reserved/,
      })
      await asAdministrator(store).repositories.rename(
        { owner: 'bob', name: 'one' },
        { owner: 'alice', name: 'one' },
      )
      t.match(await store.repositories.find('alice', 'one'), { id })
    })

    t.test('users create at most 1,000 repositories for an owner', async (t) => {
      const { store } = await openTestStore(t, database)
      const { alice } = await createUsers(store, 'alice')
      await asAdministrator(store).repositories.create({ owner: 'alice', name: 'first', ...kind })
      const { kysely } = store.engine
      const { id: _, ...first } = await kysely
        .selectFrom('repositories')
        .selectAll()
        .executeTakeFirstOrThrow()
      const rows = Array.from({ length: 998 }, (_, index) => ({
        ...first,
        name: `r${index}`,
        name_key: `r${index}`,
      }))
      await kysely.insertInto('repositories').values(rows).execute()
      const create = (name: string, by: Person = ADMINISTRATOR) =>
        store.audit.transaction(by, (change) =>
          store.repositories.create(change, { owner: 'alice', name, ...kind }),
        )
      await create('last', alice)
      await t.rejects(create('more', alice), { message: /"alice" has 1000 repositories; at most 1000/ })
      await create('more')
      const { bob } = await createUsers(store, 'bob')
      await asAdministrator(store).groups.create('acme')
      for (const { user } of [alice, bob]) await asAdministrator(store).members.set('acme', user.id, 'admin')
      await kysely
        .updateTable('repositories')
        .set({ owner: 'acme', owner_key: 'acme', owner_id: (await store.groups.find('acme', null))?.id ?? 0 })
        .execute()
      await store.audit.transaction(bob, (change) =>
        store.repositories.create(change, { owner: 'bob', name: 'one', ...kind }),
      )
      const from = { owner: 'bob', name: 'one' }
      await t.rejects(
        store.audit.transaction(bob, (change) =>
          store.repositories.rename(change, from, { owner: 'acme', name: 'one' }),
        ),
        {
          message: /"acme" has 1001 repositories; at most 1000/,
        },
      )
      await store.audit.transaction(bob, (change) =>
        store.repositories.rename(change, { owner: 'acme', name: 'more' }, { owner: 'acme', name: 'most' }),
      )
    })

    t.test('deleting a user says whose access changes', async (t) => {
      const { store } = await openTestStore(t, database)
      const { alice, bob, carol } = await createUsers(store, 'alice', 'bob', 'carol')
      await asAdministrator(store).groups.create('acme')
      await asAdministrator(store).members.set('acme', carol.user.id, 'write')
      await asAdministrator(store).repositories.create({ owner: 'alice', name: 'one', ...kind })
      for (const { user } of [bob, carol])
        await asAdministrator(store).collaborators.set({ owner: 'alice', name: 'one' }, user.id, 'read')
      t.ok(alice)
      t.same(await asAdministrator(store).users.delete('alice', 'acme'), {
        moved: 1,
        changes: [
          { user: 'alice', repository: 'acme/one', from: 'admin', to: null },
          { user: 'carol', repository: 'acme/one', from: 'read', to: 'write' },
        ],
      })
      t.match(await store.collaborators.list({ owner: 'acme', name: 'one' }), [
        { user: 'bob', permission: 'read', reason: 'granted' },
        { user: 'carol', permission: 'write', reason: 'member' },
        { user: 'carol', permission: 'read', reason: 'granted' },
      ])
    })

    t.test('many grants do not keep others from writing', async (t) => {
      const { store: opened } = await openTestStore(t, database)
      const { store, statements } = watchTransactions(opened)
      const { alice, bob } = await createUsers(opened, 'alice', 'bob')
      await asAdministrator(opened).repositories.create({ ...one, ...kind })
      const grants = Array.from({ length: 250 }, (_, index) => ({
        subject: one,
        userId: (index % 2 ? alice : bob).user.id,
        permission: index % 4 < 2 ? ('read' as const) : ('write' as const),
      }))
      statements.length = 0
      t.equal(await asAdministrator(store).collaborators.setAll(grants), 250)
      t.equal(statements.length, 3, 'at most 100 in a transaction')
      t.equal((await listEvents(opened)).filter(({ action }) => action === 'repository.access').length, 250)

      const missing = { ...one, name: 'missing' }
      const failing = [...grants, { subject: missing, userId: bob.user.id, permission: null }]
      statements.length = 0
      await t.rejects(asAdministrator(store).collaborators.setAll(failing), { message: /no repository/ })
      t.equal(statements.length, 0, 'nothing was changed')
    })

    t.test('many are created, and tokens revoked, in few statements', async (t) => {
      const { store: opened } = await openTestStore(t, database)
      const { store, statements } = watchTransactions(opened)
      const administrator = asAdministrator(store)
      const names = Array.from({ length: 1_100 }, (_, index) => `user-${index}`)
      const users = await administrator.users.createAll(names.map((name) => ({ name })))
      t.same([users.map(({ name }) => name), statements], [names, [8]], 'two of each kind of row')

      statements.length = 0
      const repositories = names.map((name, index) => ({
        ...kind,
        owner: ['alpha', 'beta'][index % 2] ?? '',
        name,
      }))
      const created = await administrator.repositories.createAll(repositories)
      t.same(
        created.map(({ name }) => name),
        names,
      )
      t.ok(statements.length === 1 && (statements[0] ?? 99) <= 11, `of two owners: ${statements}`)

      const [user] = users
      await sql`insert into tokens (id, user_id, name, prefix, hash, scopes, created_at)
        select name, ${sql.lit(user?.id)}, name, 'p', name, '', 0 from users`.execute(opened.engine.kysely)
      statements.length = 0
      t.equal(await administrator.tokens.revokeAll(user?.id ?? 0), 1_100)
      t.same(
        [statements.length, statements[0]],
        [3, statements[1]],
        'at most 1,000 in one; the last finds none',
      )
      t.ok((statements[0] ?? 99) <= 5, `in ${statements} statements`)
      t.equal((await listEvents(opened)).length, 3 * 1_100 + 2)
    })

    t.test('a deletion does not keep others from writing, however much it deletes', async (t) => {
      const { store: opened } = await openTestStore(t, database)
      const { kysely } = opened.engine
      const rowsBefore: number[] = []
      const { store, statements } = watchTransactions(opened, async () => {
        for (const table of ['statuses', 'collaborators', 'tokens', 'sessions'] as const) {
          const rows = kysely.selectFrom(table).select((eb) => eb.fn.countAll<number>().as('rows'))
          const isOfUser = table === 'tokens' || table === 'sessions'
          const counted = isOfUser ? rows : rows.where('repository_id', '=', 1)
          rowsBefore.push((await counted.executeTakeFirstOrThrow()).rows)
        }
      })
      const insert = (table: string, columns: string, size: number, values: string) =>
        sql
          .raw(`with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < ${size})
            insert into ${table} (${columns}) select ${values} from numbers`)
          .execute(kysely)
      const { carol } = await createUsers(opened, 'carol')
      await asAdministrator(opened).groups.create('acme')
      await asAdministrator(opened).members.set('acme', carol.user.id, 'write')
      const deleteUser = async (name: string, size: number) => {
        const { id } = await asAdministrator(opened).users.create(name)
        const owner = await opened.groups.find(name, null)
        await insert(
          'repositories',
          'owner_id, owner, owner_key, name, name_key, visibility, object_format, created_at',
          size,
          `${owner?.id}, '${name}', '${name}', '${name}' || i, '${name}' || i, 'private', 'sha1', 0`,
        )
        await sql`insert into collaborators (repository_id, user_id, permission, granted)
          select id, ${sql.lit(id)}, 'write', 'write' from repositories`.execute(kysely)
        statements.length = 0
        const { moved, changes } = await asAdministrator(store).users.delete(name, 'acme')
        t.same([moved, changes.filter(({ user }) => user === 'carol').length], [size, size])
        return [...statements]
      }

      const few = await deleteUser('few', 3)
      const many = await deleteUser('many', 1_200)
      t.equal(many.length, 3, 'one for 500 repositories')
      t.ok(Math.max(...many) <= Math.max(...few), `with as few statements as for 3: ${many}`)

      await insert('users', 'name, name_key, created_at', 6_000, `'u' || i, 'u' || i, 0`)
      await sql`insert into collaborators (repository_id, user_id, permission, granted)
        select 1, id, 'read', 'read' from users where name_key like 'u%'`.execute(kysely)
      await insert(
        'statuses',
        'repository_id, sha, context, id, state, created_at, updated_at',
        6_000,
        `1, 'c' || (i / 100), 'ci/' || i, 'id' || i, 'success', 0, 0`,
      )
      rowsBefore.length = 0
      const deleted = await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'few1' })
      t.same(rowsBefore.slice(0, 1), [6_000], 'the deletion itself removes no status')
      await store.repositories.removeDeleted(deleted.id, async () => {})
      const [left = 0] = rowsBefore.slice(-4)
      t.ok(left > 0 && left <= 5_000, `the last transaction deletes at most 5,000 rows: ${rowsBefore}`)

      const { id } = await asAdministrator(opened).users.create('robot')
      const tokens = 'id, user_id, name, prefix, hash, scopes, created_at'
      await insert('tokens', tokens, 1_100, `'t' || i, ${id}, 't' || i, 'p', 'h' || i, '', 0`)
      await insert('sessions', 'hash, user_id, created_at, seen_at', 6_000, `'s' || i, ${id}, 0, 0`)
      rowsBefore.length = 0
      await asAdministrator(store).users.delete('robot')
      t.same(rowsBefore.slice(2, 4), [1_100, 6_001], 'nothing was deleted before')
      const [tokensLeft = 0, sessionsLeft = 0] = rowsBefore.slice(-2)
      t.equal(tokensLeft, 0, 'tokens are revoked a step at a time, with an event each')
      t.ok(sessionsLeft > 0 && sessionsLeft <= 5_000, `${sessionsLeft} sessions are left to the last one`)
      const events = await listEvents(opened)
      t.equal(events.filter(({ action }) => action === 'token.revoked').length, 1_100)
      t.match(
        events.filter(({ action, user }) => action === 'user.deleted' && user === 'robot'),
        [{ details: { tokens: 1_100, sessions: 6_000 } }],
        'all are counted',
      )
    })
  })
}
