import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import type { RefUpdate } from '../../../src/domain/ref-updates.ts'
import { openRepository } from '../../../src/git/opened-repository.ts'
import { compareUpdates } from '../../../src/git-http/push/compare-updates.ts'
import { Presence } from '../../../src/git-http/push/presence.ts'
import { openTestStore, sqlite, temporaryFolder } from '../../helpers/databases.ts'
import { listPushes } from '../../helpers/events.ts'
import { createCommits, git, replaceGit } from '../../helpers/git.ts'
import { addRepository } from '../../helpers/records.ts'
import { beginPush, createPush, report, startRecorder } from './begin-push.ts'

const NONE = '0'.repeat(40)
const ref = 'refs/heads/first'

t.test('a push whose report nobody reads is synced all the same, before it is recorded', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo', { commits: 0 })
  const { path } = repository
  const recorder = startRecorder(t, store)
  t.teardown(() => recorder.close())
  const [tip = ''] = createCommits(path, 1, 'first')
  git(path, 'update-ref', '-d', ref)
  const push = await beginPush(t, store, recorder, repository, [{ ref, old: NONE, new: tip }])
  git(path, 'update-ref', ref, tip)
  await push.end()
  t.equal(git(path, 'symbolic-ref', 'HEAD'), ref, 'HEAD follows as a part of the sync')
  t.match(await listPushes(store), [{ details: { updates: [{ ref, old: NONE, new: tip }] } }])
})

for (const where of ['the same server', 'another server'])
  t.test(`a push begins after the one on which it builds is recorded by ${where}`, async (t) => {
    const { store } = await openTestStore(t, sqlite)
    const repository = await addRepository(store, 'owner/demo')
    const { path } = repository
    const [first = '', second = ''] = createCommits(path, 2, 'elsewhere')
    const folder = temporaryFolder(t)
    const startInstance = () => {
      const presence = new Presence(folder)
      const recorder = startRecorder(t, store, { presence })
      t.teardown(async () => {
        await recorder.close()
        await presence.close()
      })
      const create = (update: RefUpdate) => createPush(t, store, recorder, repository, [update], presence)
      return { create }
    }
    const one = startInstance()
    const other = where === 'the same server' ? one : startInstance()
    const open = async () => (await store.pushes.listOpen(60_000)).length
    const opened = await openRepository(repository)
    const { signal } = new AbortController()

    const made = { ref, old: NONE, new: first }
    const push = one.create(made)
    t.equal(await push.begin(opened, signal), null)
    git(path, 'update-ref', ref, first)
    const beside = other.create({ ref: 'refs/heads/x', old: NONE, new: first })
    t.equal(await beside.begin(opened, signal), null, 'others do not wait')
    const next = other.create({ ref, old: first, new: second })
    const begun = next.begin(opened, signal)
    await setTimeout(400)
    t.equal(await open(), 2)
    report(push, [made])
    await push.end()
    t.equal(await begun, null)
    t.equal(await open(), 2)
    for (const push of [beside, next]) await push.end()
    t.equal(await open(), 0)

    // The five seconds that it waits pass in half of one.
    const { now } = performance
    t.capture(performance, 'now', () => now.call(performance) * 10)
    git(path, 'update-ref', ref, second)
    const slow = one.create({ ref, old: second, new: first })
    t.equal(await slow.begin(opened, signal), null)
    git(path, 'update-ref', ref, first)
    const last = other.create({ ref, old: first, new: second })
    const waiting = last.begin(opened, signal)
    await setTimeout(100)
    t.equal(await open(), 1)
    const late = setTimeout(10_000, 'it still waits', { ref: false })
    t.equal(await Promise.race([waiting, late]), null, 'for a push that does not end it waits only so long')
    await slow.end()
    await waiting
    await last.end()
    t.equal(await open(), 0)
  })

t.test('updates are compared however long git takes, as long as a push may', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo')
  const opened = await openRepository(repository)
  const update = { ref, old: NONE, new: git(repository.path, 'rev-parse', 'main^{tree}') }
  const { timeout } = AbortSignal
  t.capture(AbortSignal, 'timeout', (delay: number) => timeout.call(AbortSignal, delay / 100))
  replaceGit(t, 'sleep 0.5; exec "$git" "$@"')
  const known = { branches: new Map(), tags: new Map() }
  const { signal } = new AbortController()
  const changes = [{ update, isTag: false }]
  t.match(await compareUpdates(opened, changes, known, signal), [{ refusal: { kind: 'not a commit' } }])
})

t.test('a push goes only from one state to the next', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo')
  const [tip = ''] = repository.commits
  const recorder = startRecorder(t, store)
  t.teardown(() => recorder.close())
  const opened = await openRepository(repository)
  const { signal } = new AbortController()
  const command = { ref, old: NONE, new: tip }
  const create = (commands = [command]) => createPush(t, store, recorder, repository, commands)
  const asked = { updates: [command], atomic: false, signal }
  const isOpen = async () => (await store.pushes.listOpen(0)).length > 0

  const refused = create([command, command])
  await t.rejects(create().sync(), /has not begun/)
  await t.rejects(refused.decide(asked), /received cannot be deciding/)
  t.match(await refused.begin(opened, signal), { reason: 'a ref was pushed more than once' })
  await t.rejects(refused.begin(opened, signal), /refused cannot be beginning/)
  await refused.end()
  t.notOk(await isOpen(), 'nothing was stored')

  const stopped = AbortSignal.abort(new Error('gone'))
  const gone = create()
  await t.rejects(gone.begin(opened, stopped), /gone/)
  await gone.end()
  t.notOk(await isOpen())

  const push = create()
  await push.begin(opened, signal)
  await t.rejects(push.begin(opened, signal), /open cannot be beginning/)
  t.equal((await push.decide(asked)).size, 0)
  // No error is handed over, which would fail the test.
  const { size } = await push.decide({
    ...asked,
    signal: AbortSignal.abort(new Error('it has disconnected')),
  })
  t.equal(size, 1, 'nothing is updated for a client that has disconnected')
  const [first, second] = [push.decide(asked), push.decide(asked)]
  await t.rejects(second, /deciding cannot be deciding/)
  const ended = push.end()
  await first
  report(push, [command])
  await ended
  await t.rejects(push.decide(asked), /settled cannot be deciding/)
  await push.end()
  t.equal((await listPushes(store)).length, 1, 'one event')
  t.notOk(await isOpen())
})
