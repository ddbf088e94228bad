import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { test } from 'tap'
import type { Person } from '../../src/domain/actors.ts'
import { createRepositories } from '../../src/repositories/create.ts'
import type { Change, Transact } from '../../src/store/audit/change.ts'
import { StoreUnavailable } from '../../src/store/engine.ts'
import type { NewRepository } from '../../src/store/repositories/repositories.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { startProcess } from '../helpers/process.ts'

const one: NewRepository = { owner: 'Acme', name: 'One', visibility: 'private', objectFormat: 'sha256' }

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('names keep their case and are compared without regard to ASCII case', async (t) => {
      const { store, options } = await openTestStore(t, database)
      const created = await asAdministrator(store).repositories.create(one)
      t.match(created, {
        owner: 'Acme',
        name: 'One',
        visibility: 'private',
        objectFormat: 'sha256',
        path: join(options.dataDir, 'repositories', `${created.id}.git`),
        managed: true,
      })
      t.same(await store.repositories.find('aCME', 'oNE'), created)
      t.equal(await store.repositories.find('acme', 'two'), undefined)
      await t.rejects(asAdministrator(store).repositories.create({ ...one, owner: 'ACME', name: 'ONE' }), {
        name: 'AlreadyExists',
        message: 'there is already a repository Acme/ONE',
      })
      await t.rejects(store.repositories.get('acme', 'two'), {
        name: 'Refusal',
        message: 'there is no repository acme/two',
      })
    })

    t.test('rejects invalid names', async (t) => {
      const { store } = await openTestStore(t, database)
      for (const owner of ['', '..', 'docs', 'Login', 'a/b', 'a.git']) {
        await t.rejects(
          asAdministrator(store).repositories.create({ ...one, owner }),
          { name: 'Refusal' },
          owner,
        )
      }
      for (const name of ['', '.', 'a.lock', 'a b', 'ß']) {
        await t.rejects(
          asAdministrator(store).repositories.create({ ...one, name }),
          { name: 'Refusal' },
          name,
        )
      }
      await asAdministrator(store).repositories.create({ ...one, name: 'docs' })
    })

    t.test('an imported repository keeps its path', async (t) => {
      const { store } = await openTestStore(t, database)
      t.match(await asAdministrator(store).repositories.create({ ...one, path: '/srv/git/one.git' }), {
        path: '/srv/git/one.git',
        managed: false,
      })
    })

    t.test('an administrator changes no other repository that has the name by now', async (t) => {
      const { store } = await openTestStore(t, database)
      const write = asAdministrator(store)
      const seen = await write.repositories.create(one)
      const names = { from: null, to: 'main' }
      await write.repositories.recordDefaultBranch(seen, names)
      await write.repositories.delete(seen)
      const other = await write.repositories.create(one)
      const before = await listEvents(store)
      const refused = { message: 'Acme/One is another repository by now. Nothing was changed' }
      await t.rejects(write.repositories.recordDefaultBranch(seen, names), refused)
      await t.rejects(write.repositories.setVisibility(seen, 'public'), refused)
      await t.rejects(write.repositories.delete(seen), refused)
      t.same([await store.repositories.list(), await listEvents(store)], [[other], before])
      await write.repositories.setVisibility({ ...one, id: other.id }, 'public')
    })

    t.test('creates no row without files, and no files without a row', async (t) => {
      const { store, options } = await openTestStore(t, database)
      const folder = join(options.dataDir, 'repositories')
      const create = (transact: Transact<Person>) =>
        createRepositories(transact, store, [one, { ...one, name: 'Two' }])
      const refused = new Error('refused')
      await t.rejects(
        create(async () => {
          t.equal(readdirSync(folder).length, 2, 'the files are there before anything is locked')
          throw refused
        }),
        refused,
      )
      t.same([readdirSync(folder), await store.repositories.list()], [[], []])
      const created = await create((work) => store.audit.transaction({ kind: 'administrator' }, work))
      t.same(
        created.map(({ path }) => basename(path)).sort(),
        readdirSync(folder).sort(),
        'the ids before are not used again',
      )
    })

    t.test('files stay if the rows were stored and the answer was lost', async (t) => {
      const { store } = await openTestStore(t, database)
      const lost = async <T>(work: (change: Change<Person>) => Promise<T>): Promise<T> => {
        await store.audit.transaction({ kind: 'administrator' }, work)
        throw new StoreUnavailable('the connection broke')
      }
      await t.rejects(createRepositories(lost, store, [one, { ...one, name: 'Two' }]), StoreUnavailable)
      const paths = (await store.repositories.list()).map(({ path }) => existsSync(path))
      t.same(paths, [true, true])
    })

    t.test('does not use or change a folder that a killed creation left behind', async (t) => {
      const { store, options } = await openTestStore(t, database)
      await asAdministrator(store).repositories.create(one)
      const program = resolve('test/store/fixtures/interrupted-create.ts')
      const killed = startProcess(t, process.execPath, [program, JSON.stringify(options)])
      t.equal(await killed.ended, 'SIGKILL', killed.stderr())
      const [left = ''] = readdirSync(join(options.dataDir, 'repositories'))
      t.match(left, /^\d+\.git$/, 'the folder exists')
      t.equal(await store.repositories.find('acme', 'interrupted'), undefined, 'the row does not')

      const created = await createRepositories(
        (work) => store.audit.transaction({ kind: 'administrator' }, work),
        store,
        [one, { ...one, name: 'two' }].map((row) => ({ ...row, name: `${row.name}-2` })),
      )
      for (const { id, path } of created) {
        t.not(basename(path), left)
        t.ok(id > 1)
      }
      const folder = join(options.dataDir, 'repositories')
      t.same(await store.repositoryFolders.orphaned(), [join(folder, left)])
    })

    t.test('skips ids with any kind of file in their place', async (t) => {
      const { store, options } = await openTestStore(t, database)
      const folder = join(options.dataDir, 'repositories')
      mkdirSync(join(folder, '1.git'), { recursive: true })
      writeFileSync(join(folder, '2.git'), '')
      symlinkSync('nowhere', join(folder, '3.git'))
      const [place] = await store.repositoryFolders.takePlaces(1)
      t.same(place, { id: 4, path: join(folder, '4.git') })
      const imported = { ...one, name: 'imported', path: '/srv/git/one.git' }
      t.equal((await asAdministrator(store).repositories.create(imported)).id, 5)
      t.equal((await asAdministrator(store).repositories.create({ ...one, ...(place && { place }) })).id, 4)
      t.equal((await asAdministrator(store).repositories.create({ ...one, name: 'Two' })).id, 6)
      t.same(readdirSync(folder).sort(), ['1.git', '2.git', '3.git'])
    })

    t.test('concurrent creations get places of their own', async (t) => {
      const { store, options } = await openTestStore(t, database)
      for (const id of [1, 2, 4, 5])
        mkdirSync(join(options.dataDir, `repositories/${id}.git`), { recursive: true })
      const taken = await Promise.all(
        Array.from({ length: 8 }, (_, index) => store.repositoryFolders.takePlaces(index % 3)),
      )
      const ids = taken.flat().map(({ id }) => id)
      t.same([new Set(ids).size, ids.filter((id) => [1, 2, 4, 5].includes(id))], [7, []])
      t.same(await store.repositories.listDeleted(), [], 'nothing is left of how they were taken')
    })

    t.test('finds folders that belong to no repository', async (t) => {
      const { store, options } = await openTestStore(t, database)
      t.same(await store.repositoryFolders.orphaned(), [], 'no folder yet')
      const folder = join(options.dataDir, 'repositories')
      const { path } = await asAdministrator(store).repositories.create(one)
      mkdirSync(path, { recursive: true })
      for (const name of [
        '77.git',
        'new-0123.git',
        'imported.git',
        'group/deep.git',
        'lost+found',
        '.snapshot',
      ])
        mkdirSync(join(folder, name), { recursive: true })
      writeFileSync(join(folder, 'README'), '')
      for (const name of ['imported.git', 'group/deep.git']) {
        await asAdministrator(store).repositories.create({
          ...one,
          name: basename(name, '.git'),
          path: join(folder, name),
        })
      }
      t.same(await store.repositoryFolders.orphaned(), [join(folder, '77.git'), join(folder, 'new-0123.git')])
      const { id } = await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'one' })
      await store.repositories.removeDeleted(id, async () => {})
      t.same((await store.repositoryFolders.orphaned())[0], path)
    })

    t.test('lists repositories by the code points of owner and name', async (t) => {
      const { store } = await openTestStore(t, database)
      for (const fullName of ['b/a', 'a_/a', 'A-/b', 'a-/A', 'a0/a']) {
        const [owner = '', name = ''] = fullName.split('/')
        await asAdministrator(store).repositories.create({ ...one, owner, name })
      }
      t.same(
        (await store.repositories.list()).map(({ owner, name }) => `${owner}/${name}`),
        ['a-/A', 'A-/b', 'a0/a', 'a_/a', 'b/a'],
      )
    })

    t.test('never reuses the id of a deleted repository', async (t) => {
      const { store } = await openTestStore(t, database)
      const first = await asAdministrator(store).repositories.create(one)
      t.same(await asAdministrator(store).repositories.delete({ owner: 'ACME', name: 'one' }), first)
      t.ok((await asAdministrator(store).repositories.create(one)).id > first.id)
      await t.rejects(asAdministrator(store).repositories.delete({ owner: 'acme', name: 'two' }), {
        name: 'Refusal',
      })
    })

    t.test('changes visibility and access', async (t) => {
      const { store } = await openTestStore(t, database)
      await asAdministrator(store).repositories.create(one)
      const alice = await asAdministrator(store).users.create('alice')
      await asAdministrator(store).tokens.create({
        userId: alice.id,
        name: '',
        prefix: '',
        hash: 'hash',
        scopes: [],
        expiresAt: null,
      })
      const look = async () => (await store.access.find(null, 'hash', 'acme', 'one')).repository
      t.equal(await look(), null, 'a private repository is like a missing one')
      await asAdministrator(store).repositories.setVisibility({ owner: 'acme', name: 'ONE' }, 'public')
      for (const permission of ['read', 'write', 'read', null, null] as const) {
        await asAdministrator(store).collaborators.set({ owner: 'ACME', name: 'one' }, alice.id, permission)
        t.match(await look(), { permission })
      }
    })
  })
}
