import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import type { Pusher } from '../../../src/domain/actors.ts'
import { draftPath } from '../../../src/git/leftovers.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import { settleAsUnknown } from '../../../src/store/repositories/pushes.ts'
import { openStore, type Store } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { databases, openTestStore, postgres, sqlite } from '../../helpers/databases.ts'
import { listEvents, listPushes } from '../../helpers/events.ts'
import { createCommits, git, replaceGit } from '../../helpers/git.ts'
import { startInstance } from '../../helpers/instance.ts'
import { addRepository, addToken } from '../../helpers/records.ts'
import { startServer } from '../../helpers/server.ts'
import { openTcpProxy } from '../../helpers/tcp-proxy.ts'
import { until } from '../../helpers/until.ts'
import { basic } from '../client.ts'
import { beginRpc, namedSpoolFiles, pushBody, spooledBytes, spooledFiles, workersIn } from '../raw.ts'
import { beginPush, report, startRecorder } from './begin-push.ts'

const NONE = '0'.repeat(40)

/** Settles what is open, as an instance does that finds it overdue. */
async function settle(t: Test, ...stores: Store[]): Promise<void> {
  const recorders = stores.map((store) => startRecorder(t, store, { overdue: 0 }))
  await Promise.all(recorders.map((recorder) => recorder.close()))
}

for (const database of databases) {
  t.test(`${database.name}: an open push is settled once, by comparing refs`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const another = await openStore(options)
    t.teardown(() => another.close())
    const repository = await addRepository(store, 'owner/Demo', { commits: 3 })
    const other = await addRepository(store, 'owner/other')
    const [first = '', second = '', third = ''] = repository.commits
    const pusher: Pusher = {
      by: {
        kind: 'user',
        user: { id: 1, name: 'ann' },
        token: { id: 'x', name: 'ci' },
        address: '192.0.2.1',
      },
      repositoryId: repository.id,
      repositoryName: 'owner/Demo',
    }
    for (const [name, id] of Object.entries({ made: second, kept: first, moved: third, same: first }))
      git(repository.path, 'update-ref', `refs/heads/${name}`, id)
    const move = (name: string, old: string, next: string) => ({ ref: `refs/heads/${name}`, old, new: next })
    await store.pushes.open(pusher, [
      move('made', first, second),
      move('kept', first, second),
      move('moved', first, second),
      move('same', first, first),
      move('new', NONE, first),
      move('deleted', first, NONE),
      move('\xc3\xbc', NONE, first),
    ])
    t.same(await listPushes(store), [], 'only settled pushes are listed')
    t.same(await store.pushes.listOpen(60_000), [], 'not overdue yet')
    await settle(t, store, another)
    const [event, ...others] = await listPushes(store)
    t.same(others, [])
    t.match(event, { user: 'ann', token_name: 'ci', address: '192.0.2.1', object: 'owner/Demo' })
    t.same(event?.details, {
      updates: [move('made', first, second), move('deleted', first, NONE)],
      unknown: [move('moved', first, second)],
      interrupted: true,
    })

    await store.pushes.open(pusher, [move('new', NONE, first)])
    await settle(t, store)
    t.same((await listPushes(store))[1]?.details, { updates: [], interrupted: true }, 'nothing was updated')

    const equal = [move('made', first, second), move('\xc3\xbc', NONE, third)]
    git(repository.path, 'update-ref', 'refs/heads/\u00fc', third)
    const elsewhere = { ...pusher, repositoryId: other.id, repositoryName: 'owner/other' }
    for (let push = 0; push < 2; push++) await store.pushes.open(pusher, equal)
    await store.pushes.open(pusher, [move('made', third, second)])
    await store.pushes.settle(await store.pushes.open(elsewhere, equal), elsewhere, { updates: equal })
    await settle(t, store)
    const reported = [await store.pushes.open(pusher, equal), await store.pushes.open(pusher, equal)]
    for (const id of reported) {
      t.equal(await store.pushes.settle(id, pusher, { updates: equal }), true)
      t.equal(await store.pushes.settle(id, pusher, { updates: [], interrupted: true }), false)
    }
    const shown = [move('made', first, second), move('\u00fc', NONE, third)]
    t.same(
      (await listPushes(store)).slice(2).map(({ details }) => details),
      [
        { updates: shown },
        { updates: shown, interrupted: true },
        { updates: [], unknown: shown, interrupted: true },
        { updates: [move('made', third, second)], interrupted: true },
        { updates: shown },
        { updates: shown },
      ],
      'of equal updates git makes one, unless it reports both',
    )

    const many = Array.from({ length: 70 }, (_, index) => move(`x${index}`, NONE, first))
    await store.pushes.open(pusher, many)
    await asAdministrator(store).repositories.delete({ owner: 'owner', name: 'Demo' })
    await settle(t, store)
    t.match((await listPushes(store))[8]?.details, { updates: [], more: 20, interrupted: true })
    t.equal((await listPushes(store))[8]?.object, 'owner/Demo', 'the name that the push used')

    const some = many.slice(0, 30)
    await store.pushes.settle(await store.pushes.open(pusher, some), pusher, {
      updates: some,
      unknown: some,
    })
    const { updates, unknown, more } = (await listPushes(store))[9]?.details ?? {}
    t.same([updates?.length, unknown?.length, more], [30, 20, 10], 'fifty are listed in all')

    const early = await store.pushes.open(pusher, [move('made', first, second)])
    await settle(t, another)
    await store.pushes.settle(early, pusher, { updates: [move('made', first, second)] })
    t.same(
      (await listPushes(store))[11]?.details,
      { updates: [move('made', first, second)] },
      'a push that another instance has settled too early is recorded by its own',
    )

    await store.pushes.open(pusher, [move('made', first, second)])
    await store.engine.kysely.transaction().execute(settleAsUnknown)
    t.match((await listPushes(store))[12]?.details, { updates: [], unknown: [move('made', first, second)] })
    t.same(await store.pushes.listOpen(0), [])
  })
}

t.test('who pushed is not told a name that the repository got meanwhile', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { id, commits } = await addRepository(store, 'owner/demo', { commits: 1 })
  const admin = asAdministrator(store)
  const { id: userId } = await admin.users.create('ann')
  const user = { id: userId, name: 'ann' }
  const { id: tokenId } = await addToken(store, userId)
  const by = { kind: 'user', user, token: { id: tokenId, name: 'CI' }, address: '192.0.2.1' } as const
  const pusher: Pusher = { by, repositoryId: id, repositoryName: 'Owner/demo' }
  const move = { ref: 'refs/heads/main', old: NONE, new: commits[0] ?? '' }
  const push = await store.pushes.open(pusher, [move])
  const late = await store.pushes.open(pusher, [move])
  const from = { owner: 'owner', name: 'demo' }
  await store.pushes.settle(await store.pushes.open(pusher, [move]), pusher, { updates: [move] })

  await admin.repositories.rename(from, { owner: 'owner', name: 'secret-product' })
  await store.rules.recordBypasses(pusher, new Map([['no status', new Set([move])]]))
  await store.pushes.settle(push, pusher, { updates: [move] })
  await store.engine.kysely.transaction().execute(settleAsUnknown)

  const shown = await store.auditLog.latest(user, 10)
  t.same(shown.map(({ action, object }) => `${action} ${object}`).sort(), [
    'push Owner/demo',
    'push Owner/demo',
    'push owner/demo',
    'rule.bypassed Owner/demo',
    'token.created test',
    'user.created ann',
  ])
  t.notMatch(JSON.stringify(shown), /secret/)
  t.equal(await store.pushes.settle(late, pusher, { updates: [], interrupted: true }), false)

  const stored = await listPushes(store, { repository: 'owner/secret-product' })
  t.same(
    stored.map(({ details }) => details.as),
    ['Owner/demo', 'Owner/demo'],
    'administrators see both',
  )
})

t.test('a server settles its own pushes, however long they take', async (t) => {
  // The recorder searches for overdue pushes every tenth of a second instead of every ten.
  const { setTimeout: wait } = globalThis
  t.capture(globalThis, 'setTimeout', (work: () => void, delay: number) => wait(work, delay / 100))
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo', { commits: 3 })
  const [first = '', second = '', third = ''] = repository.commits
  git(repository.path, 'update-ref', 'refs/heads/main', third)
  const recorder = startRecorder(t, store, { overdue: 50 })
  t.teardown(() => recorder.close())
  const update = { ref: 'refs/heads/main', old: first, new: second }

  const slow = await beginPush(t, store, recorder, repository, [update])
  await new Promise((resolve) => wait(resolve, 500))
  t.same(await listPushes(store), [], 'overdue, but not for its own server')
  report(slow, [update])
  await slow.end()
  t.same(
    (await listPushes(store)).map(({ details }) => details),
    [{ updates: [update] }],
  )

  await (await beginPush(t, store, recorder, repository, [update])).end()
  t.equal((await listPushes(store)).length, 1, 'a ref that is as it was before was not moved')
})

t.test(
  'an old value that the ref does not have is believed neither before git reports nor after a kill',
  async (t) => {
    const { store } = await openTestStore(t, sqlite)
    const repository = await addRepository(store, 'owner/demo', { commits: 3 })
    const [first = '', second = '', third = ''] = repository.commits
    const ref = 'refs/heads/moved'
    const recorder = startRecorder(t, store)
    t.teardown(() => recorder.close())
    const move = async (old: string, id: string) => {
      const push = await beginPush(t, store, recorder, repository, [{ ref, old, new: id }])
      git(repository.path, 'update-ref', ref, id)
      report(push, [{ ref, old, new: id }])
      await push.end()
    }
    await move(NONE, first)
    await move(first, second)
    await move(second, third)
    const events = async () => (await listPushes(store)).slice(3).map(({ details }) => details)
    const tips = () => store.listTips(repository.id, ref, third)
    const moved = [third, second, first]
    t.same(await tips(), moved)

    const open: Awaited<ReturnType<typeof beginPush>>[] = []
    for (const old of [NONE, first]) {
      const created = { ref: `refs/heads/beside-${old}`, old: NONE, new: third }
      const commands = [{ ref, old, new: third }, created]
      open.push(await beginPush(t, store, recorder, repository, commands))
      t.same(await tips(), moved, 'under way')
      git(repository.path, 'update-ref', created.ref, third)
      await settle(t, store)
      t.same((await events()).at(-1), { updates: [created], interrupted: true })
      t.same(await tips(), moved, 'interrupted')
    }
    for (const push of open) await push.end()
    t.same(await tips(), moved)
  },
)

for (const database of databases)
  t.test(
    `${database.name}: a push that git has not reported gets no event for the move of an equal one`,
    async (t) => {
      const { store } = await openTestStore(t, database)
      const repository = await addRepository(store, 'owner/demo', { commits: 1 })
      const update = { ref: 'refs/heads/new', old: NONE, new: repository.commits[0] ?? '' }
      const recorder = startRecorder(t, store)
      t.teardown(() => recorder.close())
      const begin = () => beginPush(t, store, recorder, repository, [update])
      const [first, reported, last, notStarted] = [await begin(), await begin(), await begin(), await begin()]
      git(repository.path, 'update-ref', update.ref, update.new)
      await notStarted.end(false)
      await first.end()
      report(reported, [update])
      await reported.end()
      await last.end()
      const unknown = { updates: [], unknown: [update], unreported: true }
      t.same(
        (await listPushes(store)).map(({ details }) => details),
        [unknown, { updates: [update] }, unknown],
      )

      git(repository.path, 'update-ref', '-d', update.ref)
      const alone = await begin()
      git(repository.path, 'update-ref', update.ref, update.new)
      // The last event may have been within the millisecond in which this push began.
      await store.engine.kysely.updateTable('audit_events').set({ time: 1 }).execute()
      await alone.end()
      t.same((await listPushes(store)).at(-1)?.details, { updates: [update], unreported: true })
    },
  )

t.test('PostgreSQL: a push is one event if the answer to its commit is lost', async (t) => {
  const { store: direct, options } = await openTestStore(t, postgres)
  const repository = await addRepository(direct, 'owner/demo', { commits: 0 })
  const [tip = ''] = createCommits(repository.path, 1, 'first')
  const update = { ref: 'refs/heads/first', old: NONE, new: tip }
  git(repository.path, 'update-ref', '-d', update.ref)
  const proxy = await openTcpProxy(t, options.databaseUrl ?? '')
  const store = await openStore({ ...options, databaseUrl: proxy.url })
  t.teardown(() => store.close())
  const recorder = startRecorder(t, store)
  t.teardown(() => recorder.close())
  const push = await beginPush(t, store, recorder, repository, [update])
  git(repository.path, 'update-ref', update.ref, tip)
  report(push, [update])
  const lost = proxy.loseCommit()
  await push.end()
  await lost
  t.match(
    (await listEvents(direct)).slice(2).map(({ action, details }) => ({ action, details })),
    [
      { action: 'push', details: { updates: [update] } },
      { action: 'repository.default-branch', details: { from: 'main', to: 'first' } },
    ],
  )
})

t.test('a server that is killed in the middle of a push loses no event and leaves no file', async (t) => {
  const server = await startServer(t, { database: sqlite })
  const { store, options, dataDir } = server
  const { path, commits } = await server.createRepository('owner/demo')
  const [id = ''] = commits
  const authorization = basic('x', await server.createToken('owner'))
  const lock = new Sqlite(join(dataDir, 'commit-status.db'))
  t.teardown(() => lock.close())
  const stops = stopGit(t)
  const start = () => startInstance(t, options, { PATH: process.env.PATH ?? '' })
  const left = () =>
    readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((file) => /incoming|\.lock$/.test(file))

  /**
   * Kills a server at some moment of a push to a branch, and maybe of another one of which half has
   * arrived. Returns whether the branch exists afterwards.
   */
  async function kill(
    name: string,
    isNow: (server?: number) => boolean,
    { half = false, crash = false } = {},
  ) {
    const { url, child } = await start()
    const body = pushBody([`${NONE} ${id} refs/heads/${name}`], 'report-status')
    const begin = () => beginRpc(`${url}/owner/demo.git`, 'git-receive-pack', authorization)
    const pushes = [begin(), ...(half ? [begin()] : [])]
    pushes[0]?.request.end(body)
    pushes[1]?.request.write(body.subarray(0, 20))
    await until(() => isNow(child.pid))
    child.kill('SIGKILL')
    await once(child, 'exit')
    if (crash) workersIn(path).forEach(endProcess)
    await Promise.allSettled(pushes.map(({ answer }) => answer))
    stops.at('')
    await until(() => workersIn(path).length === 0)
    if (lock.inTransaction) lock.exec('rollback')
    const isThere = git(path, 'for-each-ref', `refs/heads/${name}`) !== ''
    const before = (await listPushes(store)).length
    await settle(t, store)
    const events = (await listPushes(store)).slice(before)
    const updates = isThere ? [{ ref: `refs/heads/${name}`, old: NONE, new: id }] : []
    t.same(
      events.map(({ details }) => details),
      [{ updates, interrupted: true }],
      `${name}: no other push had arrived`,
    )
    t.same(namedSpoolFiles(dataDir), [])
    if (!crash) t.same(left(), [], name)
    return isThere
  }

  const isReceived = () => left().length > 0
  stops.at('unpack-objects')
  await kill('working', (pid) => isReceived() && spooledFiles(pid).length === 2, { half: true })
  stops.at('unpack-objects')
  t.notOk(await kill('killed', isReceived, { crash: true }), 'with all of git')
  const [quarantine = ''] = left()
  t.match(quarantine, /^objects\/tmp_objdir-incoming-[^/]+$/)
  utimesSync(join(path, quarantine), 1, 1)
  const [old, young] = [draftPath(dirname(path)), draftPath(dirname(path))]
  for (const draft of [old, young]) await createBareRepository(draft, 'sha1')
  utimesSync(old, 1, 1)
  stops.at('unpack-objects')
  // The server removes what is old beside the push, which may be the quicker of the two.
  const isRemoved = () => [join(path, quarantine), old].every((file) => !existsSync(file))
  const updated = () => {
    if (!lock.inTransaction && stops.isStopped() && isRemoved()) {
      lock.exec('begin immediate')
      stops.at('')
    }
    return lock.inTransaction && git(path, 'for-each-ref', 'refs/heads/settling') !== ''
  }
  t.ok(await kill('settling', updated))
  t.same(left(), [], 'removed by the next start')
  t.notOk(existsSync(old), 'so is a repository that got no row')
  t.ok(existsSync(young), 'unless a command may be creating it')
  const repository = (await store.repositories.find('owner', 'demo')) ?? assert.fail()
  await asAdministrator(store).rules.set(repository, { refPattern: 'deciding', required: ['x'], bypass: [] })
  stops.at('rev-parse')
  t.notOk(await kill('deciding', stops.isStopped))
})

t.test('the next server settles at once what a killed one has left open', async (t) => {
  const { url, store, options, dataDir, createRepository, createToken } = await startServer(t, {
    database: sqlite,
  })
  const { path, commits } = await createRepository('owner/demo', { commits: 2 })
  const [first = '', second = ''] = commits
  const authorization = basic('x', await createToken('owner'))
  const stops = stopGit(t)
  const start = () => startInstance(t, options, { PATH: process.env.PATH ?? '', LOG_LEVEL: 'error' })
  const push = (url: string, name: string, id: string, old = NONE) => {
    const { request, answer } = beginRpc(`${url}/owner/demo.git`, 'git-receive-pack', authorization)
    request.end(pushBody([`${old} ${id} refs/heads/${name}`], 'report-status'))
    return answer
  }
  const spool = join(dataDir, 'spool')
  const locks = () => readdirSync(spool).filter((name) => name.startsWith('.lock-'))
  const details = async () => (await listPushes(store)).map(({ details }) => details)
  /** Kills a server while git works on its push to a branch. */
  const kill = async (name: string) => {
    const { url, child } = await start()
    stops.at('unpack-objects')
    const answer = push(url, name, first)
    answer.catch(() => {})
    await until(stops.isStopped)
    child.kill('SIGKILL')
    await once(child, 'exit')
    // Those of servers that have ended are removed after a minute, which a slow machine may take.
    for (const lock of locks()) utimesSync(join(spool, lock), new Date(), new Date())
  }

  await fetch(`${url}/owner/demo.git/info/refs?service=git-upload-pack`, { headers: { authorization } })
  t.same(locks(), [], 'none of a server without pushes')
  await fetch(`${url}/owner/demo.git/info/refs?service=git-receive-pack`, { headers: { authorization } })
  await until(() => locks().length === 2)

  await kill('slow')
  const next = await start()
  const early = await push(next.url, 'slow', second)
  t.match(
    early.body.toString(),
    'ng refs/heads/slow The service is temporarily unavailable',
    'git works on it',
  )
  t.same(await details(), [], 'not settled yet')
  stops.at('')
  await until(() => workersIn(path).length === 0)
  const isThere = git(path, 'for-each-ref', 'refs/heads/slow') !== ''
  const after = await push(next.url, 'slow', second, isThere ? first : NONE)
  t.match(after.body.toString(), 'ok refs/heads/slow')
  const made = [{ ref: 'refs/heads/slow', old: NONE, new: first }]
  t.same(await details(), [
    { updates: isThere ? made : [], interrupted: true },
    { updates: [{ ref: 'refs/heads/slow', old: isThere ? first : NONE, new: second }] },
  ])

  await kill('cut')
  workersIn(path).forEach(endProcess)
  await until(() => workersIn(path).length === 0)
  const left = ['refs/heads/cut.lock', 'packed-refs.lock', 'HEAD.lock'].map((name) => join(path, name))
  for (const lock of left) writeFileSync(lock, '')
  stops.at('')
  t.match((await push(next.url, 'cut', second)).body.toString(), 'ok refs/heads/cut')
  t.same(
    readdirSync(join(path, 'objects')).filter((name) => name.startsWith('tmp_objdir')),
    [],
    'nothing of the killed push is left',
  )
  t.same((await details())[2], { updates: [], interrupted: true })

  await kill('other')
  t.equal(locks().length, 10, 'of two servers that run, and of three that have ended')
  await until(() => workersIn(path).length > 0)
  writeFileSync(join(path, 'refs/heads/other.lock'), '')
  writeFileSync(join(path, 'gc.pid'), '')
  workersIn(path).forEach(endProcess)
  await until(() => workersIn(path).length === 0)
  stops.at('')
  t.match((await push(next.url, 'other', second)).body.toString(), 'ng refs/heads/other', 'gc may lock refs')

  const logged = next.log.length
  stops.at('unpack-objects')
  const { request, answer } = beginRpc(`${next.url}/owner/demo.git`, 'git-receive-pack', authorization)
  request.end(pushBody([`${NONE} ${first} refs/heads/gone`], 'report-status'))
  await until(stops.isStopped)
  request.destroy()
  await t.rejects(answer)
  next.child.kill('SIGTERM')
  await once(next.child, 'exit')
  t.equal(locks().length, 8, 'a server that stops removes its own')
  t.same(await store.pushes.listOpen(0), [], 'and waits for git on the push of a client that has gone')
  t.same([namedSpoolFiles(dataDir), next.log.slice(logged)], [[], []])
})

t.test('a git that does not answer holds up neither other events nor the stop of the server', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo')
  const { path, id: repositoryId, commits } = repository
  const by = {
    kind: 'user',
    user: { id: 1, name: 'ann' },
    token: { id: 'f00d', name: 'CI' },
    address: '192.0.2.1',
  } as const
  const pusher: Pusher = { by, repositoryId, repositoryName: 'owner/demo' }
  const update = { ref: 'refs/heads/main', old: NONE, new: commits[0] ?? '' }
  const { timeout } = AbortSignal
  t.capture(AbortSignal, 'timeout', (delay: number) => timeout.call(AbortSignal, Math.ceil(delay / 100)))
  const recorder = startRecorder(t, store)
  git(path, 'update-ref', '-d', 'refs/heads/main')
  const unreported = await beginPush(t, store, recorder, repository, [update])
  // Only git reads a list of packed refs that is not sorted.
  writeFileSync(join(path, 'packed-refs'), `# pack-refs with: peeled\n${commits[0]} refs/heads/other\n`)
  replaceGit(t, 'exec sleep 10')
  const settled = unreported.end()
  await recorder.close()
  await settled
  t.match((await listPushes(store))[0]?.details, { updates: [], unknown: [update] })
  for (let push = 0; push < 3; push++) await store.pushes.open(pusher, [update])
  await settle(t, store)
  t.equal((await store.pushes.listOpen(0)).length, 2, 'a server that stops settles no more when time is up')
})

t.test('git does not complete a push whose client has gone while git was still reading it', async (t) => {
  const server = await startServer(t, { database: sqlite })
  const { path, commits } = await server.createRepository('owner/demo')
  const authorization = basic('x', await server.createToken('owner'))
  const stops = stopGit(t)
  stops.at('unpack-objects')
  const { request, answer } = beginRpc(`${server.url}/owner/demo.git`, 'git-receive-pack', authorization)
  request.end(pushBody([`${NONE} ${commits[0]} refs/heads/gone`], 'report-status'))
  await until(stops.isStopped)
  t.ok(spooledBytes() > 0)
  request.destroy()
  await t.rejects(answer)
  await until(() => spooledBytes() === 0)
  stops.at('')
  await until(() => workersIn(path).length === 0)
  t.equal(git(path, 'for-each-ref', 'refs/heads/gone'), '')
  const files = readdirSync(path, { recursive: true, encoding: 'utf8' })
  t.same(
    files.filter((file) => /incoming|\.lock$/.test(file)),
    [],
  )
})

/** Lets git, also as a child of git, stop before a command. */
function stopGit(t: Test) {
  const folder = t.testdir({ command: '' })
  const [command, stopped] = [join(folder, 'command'), join(folder, 'stopped')]
  const real = process.env.PATH
  const programs = execFileSync('git', ['--exec-path'], { encoding: 'utf8' }).trim()
  replaceGit(
    t,
    `while read -r line <${command} && [ "$line" ]; do
  case "$* " in *"$line "*) : >${stopped}; sleep 0.05;; *) break;; esac
done
GIT_EXEC_PATH=\${0%/*} PATH='${real}:${programs}' exec git "$@"`,
  )
  return {
    at(line: string) {
      rmSync(stopped, { force: true })
      writeFileSync(command, `${line}\n`)
    },
    isStopped: () => existsSync(stopped),
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself since it was listed.
  }
}
