import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Pusher } from '../../../src/domain/actors.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import { Presence } from '../../../src/git-http/push/presence.ts'
import { StoreUnavailable } from '../../../src/store/engine.ts'
import type { Store } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { databases, openTestStore, sqlite, temporaryFolder } from '../../helpers/databases.ts'
import { listPushes } from '../../helpers/events.ts'
import { createCommits, git, replaceGit } from '../../helpers/git.ts'
import { addRepository } from '../../helpers/records.ts'
import { beginPush, report, startRecorder } from './begin-push.ts'

const NONE = '0'.repeat(40)
const LONG = 3_600_000

/** Acts as a server that is killed in steps: first itself, then its git. */
async function startServer(folder: string) {
  const own = (await new Presence(folder).own()) ?? assert.fail()
  return {
    name: own.server,
    kill: () => own.life.close(),
    killGit: () => own.git.close(),
  }
}

t.test('a server and its git are seen to end', async (t) => {
  const folder = temporaryFolder(t)
  const presence = new Presence(folder)
  const server = await startServer(folder)
  const another = await startServer(folder)
  t.equal(await presence.stateOf(server.name), 'running')
  await server.kill()
  t.equal(await presence.stateOf(server.name), 'git runs')
  await server.killGit()
  t.equal(await presence.stateOf(server.name), 'ended')
  t.equal(await presence.stateOf(another.name), 'running')
  const [boot = '', name = ''] = server.name.split('/')
  const elsewhere = [null, '', name, `${boot}/`, `${boot}/none`, `other/${name}`, `${boot}/../${name}`]
  for (const unknown of elsewhere) t.equal(await presence.stateOf(unknown), 'unknown', `${unknown}`)
  const later = new Presence(join(folder, 'later'))
  t.equal(await later.own(), null, 'nothing can be created')
  mkdirSync(join(folder, 'later'))
  t.ok(await later.own(), 'until it can')
  await later.close()
  t.same(readdirSync(join(folder, 'later')), [])

  const age = (files: string[]) => files.map((file) => utimesSync(join(folder, file), 1, 1))
  const young = await startServer(folder)
  await Promise.all([young.kill(), young.killGit()])
  const of = ({ name }: { name: string }) =>
    readdirSync(folder).filter((file) => file.startsWith(`.lock-${name.split('/')[1]}`))
  age([...of(server), ...of(another)])
  await presence.removeEnded()
  t.same([of(server).length, of(another).length, of(young).length], [0, 2, 2], 'that may not be open yet')
  await Promise.all([another.kill(), another.killGit()])
})

t.test('what another instance removes meanwhile is no error', async (t) => {
  const folder = temporaryFolder(t)
  // A name without a file is what is found of a file that is removed after the folder was read.
  symlinkSync(join(folder, 'gone'), join(folder, '.lock-0f.server'))
  await new Presence(folder).removeEnded()
})

async function prepare(t: Test) {
  const { store } = await openTestStore(t, sqlite)
  const folder = temporaryFolder(t)
  const server = await startServer(folder)
  const presence = new Presence(folder)
  // What it finds at once is settled before the test begins a push.
  const recorder = startRecorder(t, store, { overdue: LONG, presence })
  await recorder.close()
  const pusherOf = (repositoryId: number): Pusher => ({
    by: {
      kind: 'user',
      user: { id: 1, name: 'ann' },
      token: { id: 'f00d', name: 'CI' },
      address: '192.0.2.1',
    },
    repositoryId,
    repositoryName: 'owner/demo',
  })
  const push = async (repositoryId: number, ref: string, id: string, by: string | null) => {
    await store.pushes.open(pusherOf(repositoryId), [{ ref, old: NONE, new: id }], { server: by })
  }
  const events = async () => (await listPushes(store)).map(({ details }) => details)
  return { store, server, recorder, pusherOf, push, events, folder }
}

t.test('pushes of a killed server hold up only pushes to the same repository', async (t) => {
  const { store, server, recorder, push, events, folder } = await prepare(t)
  const { id, path, commits } = await addRepository(store, 'owner/demo')
  const other = await addRepository(store, 'owner/other')
  const [commit = ''] = commits
  await push(id, 'refs/heads/new', commit, server.name)
  await recorder.settleBefore(id)
  t.same(await events(), [], 'its server runs')
  await server.kill()
  await t.rejects(recorder.settleBefore(id), { code: 'unavailable' })
  await recorder.settleBefore(other.id)
  t.same(await events(), [])

  git(path, 'update-ref', 'refs/heads/new', commit)
  await server.killGit()
  await recorder.settleBefore(other.id)
  t.same(await events(), [], 'of another repository')
  renameSync(join(path, 'HEAD'), join(path, 'gone'))
  await recorder.settleBefore(id)
  t.same(await events(), [], 'the refs may be readable later')
  renameSync(join(path, 'gone'), join(path, 'HEAD'))
  await recorder.settleBefore(id)
  const update = { ref: 'refs/heads/new', old: NONE, new: commit }
  t.same(await events(), [{ updates: [update], interrupted: true }])

  const elsewhere = server.name.replace(/^[^/]+/, 'another-machine')
  for (const name of [null, elsewhere]) await push(id, 'refs/heads/new', commit, name)
  await recorder.settleBefore(id)
  t.equal((await store.pushes.listOpen(0)).length, 2, 'whose end cannot be seen')
  t.equal((await events()).length, 1)
  const locks = () => readdirSync(folder)
  for (const file of locks()) utimesSync(join(folder, file), 1, 1)
  const search = () => startRecorder(t, store, { overdue: 0, presence: new Presence(folder) }).close()
  await search()
  t.equal((await events()).length, 3)
  t.equal(locks().length, 2, 'while a push is open')
  await search()
  t.same(locks(), [], 'not needed any more')
})

t.test('a push whose repository fails holds up no others, and is settled once it is overdue', async (t) => {
  const { store, server, pusherOf, push, events, folder } = await prepare(t)
  const failing = await addRepository(store, 'owner/failing', { commits: 2 })
  const other = await addRepository(store, 'owner/other')
  const [first = '', second = ''] = failing.commits
  const commands = [
    { ref: 'refs/heads/trunk', old: NONE, new: second },
    { ref: 'refs/heads/main', old: first, new: NONE },
  ]
  await store.pushes.open(pusherOf(failing.id), commands, { server: server.name, head: 'refs/heads/main' })
  git(failing.path, 'update-ref', 'refs/heads/trunk', second)
  git(failing.path, 'update-ref', '-d', 'refs/heads/main')
  const created = { ref: 'refs/heads/new', old: NONE, new: other.commits[0] ?? '' }
  await push(other.id, created.ref, created.new, server.name)
  git(other.path, 'update-ref', created.ref, created.new)
  await Promise.all([server.kill(), server.killGit()])

  // What the push has received cannot be listed, nor the branches at which HEAD may go on.
  const packs = join(failing.path, 'objects/pack')
  rmSync(packs, { recursive: true })
  writeFileSync(packs, '')
  replaceGit(t, 'case "$*" in *for-each-ref*) exit 1;; esac; exec "$git" "$@"')
  const errors: unknown[] = []
  const onError = (error: unknown) => errors.push(error)
  const presence = new Presence(folder)
  const recorder = startRecorder(t, store, { overdue: LONG, presence, onError })
  await recorder.close()
  const made = { updates: [created], interrupted: true }
  t.match(await events(), [made])
  const failures = [{ code: 'ENOTDIR' }, { name: 'RepositoryUnavailable' }]
  t.match(errors, failures)
  await recorder.settleBefore(failing.id)
  t.equal(await store.pushes.hasOpen(failing.id), true, 'it is tried again, and the next push goes on')
  errors.length = 0
  await startRecorder(t, store, { overdue: 0, presence, onError }).close()
  t.match(await events(), [made, { updates: commands, interrupted: true }])
  t.match(errors, failures)
})

t.test('locks are removed that only a killed git can have left', async (t) => {
  const { store, server, recorder, push, folder } = await prepare(t)
  const running = await startServer(folder)
  const imported = join(temporaryFolder(t), 'imported.git')
  await createBareRepository(imported, 'sha1')
  const [commit = ''] = createCommits(imported, 1)
  const row = { owner: 'owner', name: 'imported', visibility: 'public', objectFormat: 'sha1' } as const
  const alone = await addRepository(store, 'owner/alone')
  const shared = await addRepository(store, 'owner/shared')
  const others = await asAdministrator(store).repositories.create({ ...row, path: imported })
  for (const { id } of [alone, shared, others]) await push(id, 'refs/heads/\xc3\xbc', commit, server.name)
  await push(shared.id, 'refs/heads/x', commit, running.name)
  const locks = ({ path }: { path: string }) =>
    ['refs/heads/\xfc.lock', 'refs/heads/x.lock', 'packed-refs.lock'].map((name) => join(path, name))
  const files = (repository: { path: string }) => locks(repository).map((file) => existsSync(file))
  for (const lock of [alone, shared, others].flatMap(locks)) writeFileSync(lock, '')
  // What is as young as the search, to a millisecond, is kept.
  await setTimeout(5)
  await Promise.all([server.kill(), server.killGit()])
  for (const { id } of [alone, shared, others]) await recorder.settleBefore(id)
  t.same(files(alone), [false, true, false], 'of the refs that it named')
  t.same(files(shared), [true, true, true], 'another push is under way')
  t.same(files(others), [true, true, true], 'others write to it')
  await Promise.all([running.kill(), running.killGit()])
})

t.test('a push that could not be settled is left until it is overdue', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const presence = new Presence(temporaryFolder(t))
  t.teardown(() => presence.close())
  const errors: unknown[] = []
  const onError = (error: unknown) => errors.push(error)
  const recorder = startRecorder(t, store, { overdue: LONG, presence, onError })
  const repository = await addRepository(store, 'owner/demo')
  const commands = [{ ref: 'refs/heads/new', old: NONE, new: repository.commits[0] ?? '' }]
  const settle = () => Promise.reject(new Error('it cannot be stored'))
  const away: Store = { ...store, pushes: { ...store.pushes, settle } }
  const push = await beginPush(t, away, recorder, repository, commands, presence)
  git(repository.path, 'update-ref', 'refs/heads/new', commands[0]?.new ?? '')
  report(push, commands)
  await push.end()
  t.match(errors, [{ message: 'it cannot be stored' }])
  await recorder.settleBefore(repository.id)
  await recorder.close()
  t.same(await listPushes(store), [], 'not as one for which git was not started')
  await startRecorder(t, store, { overdue: 0 }).close()
  t.match(await listPushes(store), [{ details: { updates: commands, interrupted: true } }])
})

t.test('a server that ends settles what was stored for no push, also after one that fails', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const presence = new Presence(temporaryFolder(t))
  t.teardown(() => presence.close())
  const failing = new Error('it cannot be stored')
  const errors: unknown[] = []
  const opened: number[] = []
  const pushes: Store['pushes'] = {
    ...store.pushes,
    async open(...push) {
      opened.push(await store.pushes.open(...push))
      throw new StoreUnavailable('the connection broke')
    },
    settle: (id, ...push) => (id === opened[0] ? Promise.reject(failing) : store.pushes.settle(id, ...push)),
  }
  const onError = (error: unknown) => errors.push(error)
  const recorder = startRecorder(t, store, { pushes, overdue: LONG, presence, onError })
  for (const name of ['owner/failing', 'owner/demo']) {
    const repository = await addRepository(store, name)
    const commands = [{ ref: 'refs/heads/new', old: NONE, new: repository.commits[0] ?? '' }]
    const lost = beginPush(t, { ...store, pushes }, recorder, repository, commands, presence)
    await t.rejects(lost, StoreUnavailable)
  }
  await recorder.close()
  t.same(errors, [failing])
  t.same(
    (await store.pushes.listOpen(LONG)).map(({ id }) => id),
    opened.slice(0, 1),
  )
})

for (const database of databases)
  t.test(
    `${database.name}: what was stored although its answer was lost is no interrupted push`,
    async (t) => {
      const { store } = await openTestStore(t, database)
      const presence = new Presence(temporaryFolder(t))
      const recorder = startRecorder(t, store, { overdue: LONG, presence })
      t.teardown(() => presence.close())
      const repository = await addRepository(store, 'owner/demo')
      const [commit = ''] = repository.commits
      const commands = [{ ref: 'refs/heads/new', old: NONE, new: commit }]
      const lost: Store = {
        ...store,
        pushes: {
          ...store.pushes,
          async open(...push) {
            await store.pushes.open(...push)
            throw new StoreUnavailable('the connection broke')
          },
        },
      }
      await t.rejects(beginPush(t, lost, recorder, repository, commands, presence), StoreUnavailable)
      t.equal(await store.pushes.hasOpen(repository.id), true, 'it was committed')
      await recorder.settleBefore(repository.id)
      t.equal(await store.pushes.hasOpen(repository.id), false)

      const stored: Store = {
        ...store,
        pushes: {
          ...store.pushes,
          async open(...push) {
            const id = await store.pushes.open(...push)
            await recorder.settleBefore(repository.id)
            return id
          },
        },
      }
      const push = await beginPush(t, stored, recorder, repository, commands, presence)
      t.equal(await store.pushes.hasOpen(repository.id), true, 'one whose answer is on its way is left')
      await recorder.settleBefore(repository.id)
      t.equal(await store.pushes.hasOpen(repository.id), true, 'one that is under way is left')
      git(repository.path, 'update-ref', 'refs/heads/new', commit)
      report(push, commands)
      await push.end()
      await t.rejects(beginPush(t, lost, recorder, repository, commands, presence), StoreUnavailable)
      await recorder.close()
      t.equal(await store.pushes.hasOpen(repository.id), false, 'nor is it if the server ends then')
      t.match(await listPushes(store), [{ details: { updates: commands } }])
      t.equal((await listPushes(store)).length, 1)
      t.equal((await listPushes(store))[0]?.details.interrupted, undefined)
    },
  )
