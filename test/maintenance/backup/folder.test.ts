import { AsyncLocalStorage } from 'node:async_hooks'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import type { ObjectFormat } from '../../../src/domain/commit-id.ts'
import { openRepository } from '../../../src/git/opened-repository.ts'
import { followsDeletions, setFollowing } from '../../../src/git/refs/default-branch.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import { readRefList } from '../../../src/git/transfer.ts'
import { backUp } from '../../../src/maintenance/backup/back-up.ts'
import { lockFile } from '../../../src/maintenance/backup/file-lock.ts'
import { listBackups } from '../../../src/maintenance/backup/generations.ts'
import { findBackup, restoreAll } from '../../../src/maintenance/backup/restore.ts'
import type { Repository } from '../../../src/store/repositories/repositories.ts'
import { openStore, type Store, type StoreOptions } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { databases, openTestStore, postgres, sqlite, temporaryFolder } from '../../helpers/databases.ts'
import { listEvents } from '../../helpers/events.ts'
import { flipBit } from '../../helpers/flip-bit.ts'
import { createCommits, git, gitWith } from '../../helpers/git.ts'
import { createRandom } from '../../helpers/random.ts'

const quiet = () => {}
const defaults = { keep: 7, imported: false }
const MIB = 1024 ** 2
const MOVED = 'refs/heads/moved'

async function create(store: Store, name: string, objectFormat: ObjectFormat = 'sha1'): Promise<Repository> {
  const wanted = { owner: 'alice', name, visibility: 'public', objectFormat } as const
  const repository = await asAdministrator(store).repositories.create(wanted)
  await createBareRepository(repository.path, objectFormat)
  return repository
}

function report(store: Store, { id }: Repository, sha: string) {
  const status = { context: 'ci', state: 'success', description: null, target_url: null } as const
  return store.statuses.report({ repositoryId: id, sha, ...status })
}

/** Restores into a new place, where `close` must be called before another restore. */
async function restore(
  t: Test,
  folder: string,
  {
    options = { dataDir: join(temporaryFolder(t), 'new') },
    time = '',
    lockUsers = false,
  }: {
    options?: StoreOptions
    time?: string
    lockUsers?: boolean
  } = {},
): Promise<{ store: Store; options: StoreOptions; locked: number }> {
  const { locked } = await restoreAll({ ...options, lockUsers }, await findBackup(folder, time), quiet)
  const store = await openStore(options)
  t.teardown(() => store.close())
  return { store, options, locked }
}

/** Records a push to the branch `moved`. */
async function push(
  store: Store,
  { id: repositoryId }: Repository,
  old: string,
  next: string,
): Promise<void> {
  const user = { id: 1, name: 'alice' }
  const by = { kind: 'user', user, token: { id: 'x', name: 'ci' }, address: '192.0.2.1' } as const
  const pusher = { by, repositoryId, repositoryName: 'alice/rocket' }
  const update = { ref: MOVED, old, new: next }
  await store.pushes.settle(await store.pushes.open(pusher, [update]), pusher, { updates: [update] })
}

/** Returns the files below a folder. */
function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name)
}

/** Returns what git itself says about the refs of each repository, and our list of them. */
async function refsOf(store: Store): Promise<unknown[]> {
  const refs = []
  for (const repository of await store.repositories.list()) {
    const { id, path } = repository
    git(path, 'rev-list', '--objects', '--quiet', '--all')
    const head = readFileSync(join(path, 'HEAD'), 'utf8')
    refs.push([id, git(path, 'for-each-ref'), head, await readRefList(await openRepository(repository))])
  }
  return refs
}

for (const from of databases) {
  const to = from === sqlite ? postgres : sqlite
  t.test(`restores a folder of ${from.name} into ${to.name}, each of its backups`, async (t) => {
    const { store } = await openTestStore(t, from)
    await asAdministrator(store).users.create('alice')
    const rocket = await create(store, 'rocket')
    const other = await create(store, 'other', 'sha256')
    for (const { path } of [rocket, other]) {
      for (const branch of ['main', 'moved', 'deleted', 'packed']) createCommits(path, 2, branch)
      git(path, 'tag', '--annotate', '--message=first', 'v1', 'main')
      git(path, 'update-ref', 'refs/hidden/keep', 'moved')
      git(path, 'config', 'transfer.hideRefs', 'refs/hidden')
      git(path, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/main')
      git(path, 'symbolic-ref', 'refs/heads/dangling', 'refs/heads/à-b')
      git(path, 'symbolic-ref', 'refs/heads/second', 'refs/heads/dangling')
    }
    const [sha = ''] = createCommits(rocket.path, 1, 'gone')
    await report(store, rocket, sha)
    await report(store, rocket, '0'.repeat(40))
    git(rocket.path, 'update-ref', '-d', 'refs/heads/gone')
    const [created = '', next = '', last = ''] = ['a', 'b', 'c'].map((digit) => digit.repeat(40))
    await push(store, rocket, '0'.repeat(40), created)
    await setFollowing(await openRepository(rocket), true, async () => {})
    const folder = join(temporaryFolder(t), 'a', 'backups')
    t.match(await backUp(store, folder, defaults, quiet), { left: [], problems: [], notes: [] })
    t.match((await listEvents(store)).at(-1)?.details, { repositories: 2, refs: 12 })
    const before = await refsOf(store)
    const first = readdirSync(folder).find((name) => name.endsWith('.manifest')) ?? ''
    t.equal(statSync(join(folder, first)).mode & 0o777, 0o600, 'names of private repositories')
    // The second backup begins in another second.
    await new Promise((resolve) => setTimeout(resolve, 1_000))

    for (const { path } of [rocket, other]) {
      git(path, 'pack-refs', '--all')
      createCommits(path, 2, 'moved')
      git(path, 'branch', '--quiet', '-D', 'deleted')
      createCommits(path, 1, 'deleted/inside')
      git(path, 'symbolic-ref', 'HEAD', 'refs/heads/voilà')
    }
    git(other.path, 'update-ref', '--no-deref', 'HEAD', git(other.path, 'rev-parse', 'main'))
    // Keeps the commit with a status only in the backup.
    git(rocket.path, 'gc', '--quiet', '--prune=now')
    await push(store, rocket, created, next)
    const third = await create(store, 'third')
    await backUp(store, folder, defaults, quiet)
    const [newest] = (await listEvents(store)).slice(-1)
    t.match(newest, { action: 'backup.completed', object: 'backup', details: { repositories: 3 } })
    t.equal((await store.auditLog.latestBackup('backup.completed'))?.id, newest?.id)

    const now = await restore(t, folder, { options: await to.create(t) })
    t.same(await refsOf(now.store), await refsOf(store))
    const inRestored = (...args: string[]) =>
      git(now.options.dataDir, '--git-dir=repositories/1.git', ...args)
    t.equal(inRestored('config', 'transfer.hideRefs'), 'refs/hidden')
    t.equal(inRestored('symbolic-ref', 'refs/heads/second'), 'refs/heads/à-b', 'where a chain dangles')
    t.equal((await listEvents(now.store)).at(-1)?.action, 'backup.restored')
    t.same(readdirSync(join(now.options.dataDir, 'repositories')).sort(), ['1.git', '2.git', '3.git'])
    const restored = await now.store.repositories.get('alice', 'rocket')
    t.equal(await followsDeletions(await openRepository(restored)), true)
    t.same(await now.store.listTips(restored.id, MOVED, next), [next, created], 'what a branch was at')
    await push(now.store, restored, next, last)
    t.same(await now.store.listTips(restored.id, MOVED, last), [last, next, created], 'and goes on from')
    const time = /-(\w+)Z/.exec(first)?.[1] ?? ''
    const then = await restore(t, folder, { time, lockUsers: true })
    t.same(await refsOf(then.store), before)
    t.same(await then.store.listTips(rocket.id, MOVED, created), [created])
    t.equal(git(then.options.dataDir, '--git-dir=repositories/1.git', 'cat-file', '-t', sha), 'commit')
    t.equal(then.locked, 1)
    t.ok((await then.store.users.find('alice'))?.lockedAt)
    t.same(
      readdirSync(then.options.dataDir).sort().slice(0, 1),
      ['commit-status.db'],
      'nothing is left behind',
    )

    // The database is lost between the two steps of a restore, or moves: the repositories are in
    // place.
    await then.store.close()
    for (const name of readdirSync(then.options.dataDir))
      if (name.startsWith('commit-status.db')) rmSync(join(then.options.dataDir, name))
    t.equal((await restore(t, folder, { time, options: then.options })).locked, 0)

    const backups = () => readdirSync(folder).filter((name) => name !== 'lock' && name !== 'repositories')
    for (const name of ['000009-20261122T000000Z.database', '000009-20261122T000000Z.manifest.part'])
      writeFileSync(join(folder, name), '')
    await backUp(store, folder, { ...defaults, keep: 2 }, quiet)
    t.equal(backups().length, 4, 'two backups, and nothing of one that was interrupted')
    await asAdministrator(store).repositories.delete({ owner: third.owner, name: third.name })
    t.ok(existsSync(join(folder, 'repositories', '3.sha1.git')), 'while a backup names it')
    await backUp(store, folder, { ...defaults, keep: 1 }, quiet)
    t.same(readdirSync(join(folder, 'repositories')).sort(), ['1.sha1.git', '2.sha256.git'])
  })
}

t.test('a repository that cannot be read keeps its last good state', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const [broken, whole] = [await create(store, 'broken'), await create(store, 'whole')]
  for (const { path } of [broken, whole]) createCommits(path, 3)
  const folder = temporaryFolder(t)
  await backUp(store, folder, defaults, quiet)
  const good = git(broken.path, 'show-ref')
  const complete = await store.auditLog.latestBackup('backup.completed')
  const wrong: [string, () => void, RegExp][] = [
    [
      'a ref to nothing',
      () => writeFileSync(join(broken.path, 'refs/heads/x'), `${'1'.repeat(40)}\n`),
      /not our ref/,
    ],
    ['an empty ref', () => writeFileSync(join(broken.path, 'refs/heads/x'), ''), /ignoring broken ref/],
    ['no HEAD', () => rmSync(join(broken.path, 'HEAD')), /cannot be opened: it has no HEAD/],
    ['no files', () => rmSync(broken.path, { recursive: true }), /cannot be opened: ENOENT/],
  ]
  for (const [name, damage, problem] of wrong) {
    damage()
    const tip = createCommits(whole.path, 1)
    const { problems } = await backUp(store, folder, defaults, quiet)
    t.equal(problems.length, 1, name)
    t.match(problems[0], problem, name)
    const { store: restored } = await restore(t, folder)
    t.equal(git((await restored.repositories.get('alice', 'broken')).path, 'show-ref'), good, name)
    t.match(git((await restored.repositories.get('alice', 'whole')).path, 'show-ref'), tip[0] ?? '', name)
  }
  t.match(await listEvents(store), { length: 8 })
  t.equal((await store.auditLog.latestBackup())?.action, 'backup.incomplete')
  const latest = await store.auditLog.latestBackup('backup.completed')
  t.equal(latest?.id, complete?.id, 'an incomplete one does not count')

  const other = store.engine.kysely.updateTable('repositories').set({ created_at: 1 })
  await other.where('id', '=', broken.id).execute()
  await backUp(store, folder, defaults, quiet)
  const { repositories } = await findBackup(folder)
  t.equal(repositories.find(({ id }) => id === broken.id)?.content, null, 'another repository with its id')
})

t.test('only one backup to a folder runs', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const folder = temporaryFolder(t)
  const unlock = lockFile(join(folder, 'lock'))
  await t.rejects(backUp(store, folder, defaults, quiet), { message: /^another backup to .* is running$/ })
  unlock?.()
  t.same(await listEvents(store), [])
  await backUp(store, folder, defaults, quiet)
})

t.test('a backup that fails is an event', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const folder = temporaryFolder(t)
  // A folder is not removed like a file.
  mkdirSync(join(folder, '000000-20261121T000000Z.database'))
  const failure = await backUp(store, folder, defaults, quiet).catch((error) => error)
  t.match(failure, { code: /^ERR_FS_/ })
  const event = { action: 'backup.incomplete', details: { problems: [failure.message] } }
  t.match(await store.auditLog.latestBackup(), event)
})

t.test('imported repositories are left out, or restored into the data directory', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const path = join(temporaryFolder(t), 'imported.git')
  await createBareRepository(path, 'sha1')
  createCommits(path, 2)
  const row = { owner: 'alice', name: 'imported', visibility: 'public', objectFormat: 'sha1', path } as const
  await asAdministrator(store).repositories.create(row)
  const folder = temporaryFolder(t)
  t.same((await backUp(store, folder, defaults, quiet)).left, ['alice/imported'])
  const without = await restore(t, folder)
  t.equal((await without.store.repositories.get('alice', 'imported')).path, path)
  const away = { ...row, name: 'away', path: join(path, 'nowhere') }
  await asAdministrator(store).repositories.create(away)
  t.same((await backUp(store, folder, { ...defaults, imported: true }, quiet)).left, [])
  const { store: restored, options } = await restore(t, folder)
  const moved = await restored.repositories.get('alice', 'imported')
  t.same([moved.managed, moved.path], [true, join(options.dataDir, 'repositories', '1.git')])
  t.equal(git(moved.path, 'show-ref'), git(path, 'show-ref'))
  t.equal((await restored.repositories.get('alice', 'away')).path, away.path, 'of which nothing was read')
  chmodSync(join(path, 'config'), 0o666)
  const { problems } = await backUp(store, folder, { ...defaults, imported: true }, quiet)
  const reasons = [/^alice\/away: /, /^alice\/imported: .* other accounts can write /]
  t.match(problems.sort(), reasons, 'git does not start')
})

t.test('a restore that is refused or interrupted leaves the place as it was', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { path } = await create(store, 'rocket')
  createCommits(path, 2)
  const folder = temporaryFolder(t)
  await t.rejects(findBackup(folder), { message: `${folder} contains no complete backup` })
  await backUp(store, folder, defaults, quiet)
  await t.rejects(findBackup(folder, '1999'), {
    message: /no complete backup of "1999" \(it contains: 000001-/,
  })
  const [name = ''] = await listBackups(folder)
  t.match(await findBackup(folder, name), { file: join(folder, `${name}.database`) }, 'a name of that list')

  const place = temporaryFolder(t)
  const options = { dataDir: join(place, 'data') }
  const refuse = (message: RegExp) =>
    t.rejects(async () => restoreAll(options, await findBackup(folder), quiet), {
      name: 'Refusal',
      message,
    })

  const repositories = join(options.dataDir, 'repositories')
  await createBareRepository(join(repositories, '1.git'), 'sha1')
  createCommits(join(repositories, '1.git'), 1)
  await refuse(/1\.git is in the way: it is not what the backup contains/)
  rmSync(options.dataDir, { recursive: true })
  mkdirSync(join(repositories, 'stray.git'), { recursive: true })
  await refuse(/stray\.git is in the way/)
  rmSync(options.dataDir, { recursive: true })
  mkdirSync(options.dataDir)
  writeFileSync(join(options.dataDir, 'commit-status.db-wal'), 'reports')
  await refuse(/commit-status\.db-wal is in the way/)
  rmSync(options.dataDir, { recursive: true })
  mkdirSync(options.dataDir)
  const unlock = lockFile(join(options.dataDir, '.restore.lock'))
  await refuse(/^another restore into .* is running$/)
  unlock?.()
  rmSync(options.dataDir, { recursive: true })
  symlinkSync('nowhere', options.dataDir)
  await t.rejects(restore(t, folder, { options }))
  rmSync(options.dataDir)

  const [database = '', manifest = ''] = readdirSync(folder).map((name) => join(folder, name))
  const packs = join(folder, 'repositories/1.sha1.git/objects/pack')
  const pack = join(packs, readdirSync(packs).find((name) => name.endsWith('.pack')) ?? '')
  for (const file of [database, manifest, pack]) {
    const bytes = readFileSync(file)
    const changed = Buffer.from(bytes)
    changed[bytes.length >> 1] = (changed[bytes.length >> 1] ?? 0) ^ 1
    rmSync(file)
    writeFileSync(file, changed)
    await refuse(file === pack ? /repository alice\/rocket cannot be restored/ : /damaged/)
    t.same(filesIn(place), [], file)
    writeFileSync(file, bytes)
  }
  t.ok(
    existsSync(
      (await (await restore(t, folder, { options })).store.repositories.get('alice', 'rocket')).path,
    ),
  )
})

// "npm run soak -- full-disk" fills a disk, which needs privileges. A reader keeps SQLite from completing
// the file too.
t.test('publishes no database whose file is incomplete', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  await asAdministrator(store).users.create('alice')
  const folder = temporaryFolder(t)
  await backUp(store, folder, defaults, quiet)

  const options = { dataDir: join(temporaryFolder(t), 'new') }
  let reader: Sqlite.Database | undefined
  const read = () => {
    reader ??= new Sqlite(join(options.dataDir, '.restore', 'commit-status.db'))
    if (!reader.inTransaction) reader.exec('begin; select * from users')
  }
  await t.rejects(restoreAll(options, await findBackup(folder), read), {
    name: 'StoreUnavailable',
    message: 'SQLite: SQLITE_BUSY: another process has kept the database locked for too long',
  })
  reader?.close()
  t.same(filesIn(options.dataDir), [])
  t.ok(await (await restore(t, folder, { options })).store.users.find('alice'))
})

t.test('a flipped bit in any file of the folder is noticed and healed', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { path } = await create(store, 'rocket')
  createCommits(path, 3)
  git(path, 'tag', 'old')
  const whole = temporaryFolder(t)
  await backUp(store, whole, defaults, quiet)
  createCommits(path, 3)
  await backUp(store, whole, defaults, quiet)
  const refs = await refsOf(store)

  for (const part of ['.pack', '.idx', '/config', '/HEAD', '/packed-refs', '.manifest', '.database'])
    await t.test(part, async (t) => {
      const folder = temporaryFolder(t)
      cpSync(whole, folder, { recursive: true, preserveTimestamps: true })
      const where = flipBit(folder, createRandom(1), new RegExp(`${part.replace('.', '\\.')}$`))
      const isLost = part === '.manifest' || part === '.database'

      const options = { ...defaults, verifyAll: true }
      const { notes, problems, verified } = await backUp(store, folder, options, quiet)
      t.same(problems, [], 'the repository is not blamed')
      t.equal(notes.length, 1, where)
      t.match(notes[0], isLost ? /^the backup 00000[12]-\w+ is lost: .* damaged/ : /damaged/, where)
      t.ok(verified.bytes > 0)
      t.same(await refsOf((await restore(t, folder)).store), refs)
      const [first = ''] = await listBackups(folder)
      if (!isLost) await restore(t, folder, { time: first })
      t.equal((await backUp(store, folder, options, quiet)).notes.length, isLost ? 1 : 0, 'while it is there')
    })
  t.same(await refsOf(store), refs, 'the repository is as it was')
})

t.test('earlier backups are kept from what was set aside, or are named as lost', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { path } = await create(store, 'rocket')
  createCommits(path, 3)
  const child = git(path, 'commit-tree', '-p', 'main', '-m', 'gone', 'main^{tree}')
  git(path, 'update-ref', 'refs/heads/gone', child)
  const folder = temporaryFolder(t)
  await backUp(store, folder, defaults, quiet)
  const before = await refsOf(store)
  git(path, 'update-ref', '-d', 'refs/heads/gone')
  git(path, 'gc', '--quiet', '--prune=now')
  await backUp(store, folder, defaults, quiet)
  const repositories = join(folder, 'repositories')
  const packs = join(repositories, '1.sha1.git', 'objects', 'pack')
  const damage = (offset: (bytes: Buffer, file: string) => number) => {
    const file = join(packs, readdirSync(packs).find((name) => name.endsWith('.pack')) ?? '')
    const bytes = readFileSync(file)
    const at = offset(bytes, file)
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
    rmSync(file)
    writeFileSync(file, bytes)
  }

  // The digest at the end.
  damage((bytes) => bytes.length - 1)
  t.match((await backUp(store, folder, defaults, quiet)).notes, [
    /pack-\w+\.pack was damaged; it was repaired$/,
  ])
  const [first = ''] = await listBackups(folder)
  t.same(await refsOf((await restore(t, folder, { time: first })).store), before)

  // The tree that all commits share, which the served repository has.
  const tree = git(path, 'rev-parse', 'main^{tree}')
  damage((_bytes, file) => {
    const index = gitWith(path, readFileSync(file.replace(/pack$/, 'idx')), 'show-index')
    return Number(new RegExp(`^(\\d+) ${tree}`, 'm').exec(index)?.[1]) + 3
  })
  t.match((await backUp(store, folder, defaults, quiet)).notes, [
    /pack-\w+\.pack is damaged; set aside as .*\.damaged-000004-/,
  ])
  t.same(await refsOf((await restore(t, folder, { time: first })).store), before)

  for (const name of readdirSync(repositories)) rmSync(join(repositories, name), { recursive: true })
  const { notes, problems } = await backUp(store, folder, defaults, quiet)
  t.same(problems, [])
  t.match(notes, [/^the backup 000001-\w+ is lost: objects of alice\/rocket exist nowhere any more$/])
  t.same(await refsOf((await restore(t, folder)).store), await refsOf(store))
})

t.test('an incomplete repository of the folder is replaced', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { path } = await create(store, 'rocket')
  createCommits(path, 3)
  const folder = temporaryFolder(t)
  await backUp(store, folder, defaults, quiet)
  const before = await refsOf(store)
  const packs = join(folder, 'repositories', '1.sha1.git', 'objects', 'pack')
  for (const name of readdirSync(packs)) rmSync(join(packs, name))
  createCommits(path, 1)
  const { notes, problems } = await backUp(store, folder, defaults, quiet)
  t.same(problems, [], 'the served one is not blamed')
  t.match(notes, [/1\.sha1\.git is incomplete; set aside as /])
  t.same(await refsOf((await restore(t, folder)).store), await refsOf(store))
  const [first = ''] = await listBackups(folder)
  t.same(await refsOf((await restore(t, folder, { time: first })).store), before, 'git has its commits')
})

t.test('reported commits that git has pruned in part do not stop the backup', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const rocket = await create(store, 'rocket')
  createCommits(rocket.path, 2)
  const [parent = '', child = ''] = createCommits(rocket.path, 2, 'gone')
  const [good = ''] = createCommits(rocket.path, 1, 'kept')
  git(rocket.path, 'update-ref', '-d', 'refs/heads/gone')
  git(rocket.path, 'update-ref', '-d', 'refs/heads/kept')
  for (const sha of [child, good]) await report(store, rocket, sha)
  rmSync(join(rocket.path, 'objects', parent.slice(0, 2), parent.slice(2)))
  const folder = temporaryFolder(t)
  const { problems, notes } = await backUp(store, folder, defaults, quiet)
  t.same(problems, [])
  t.match(notes, [/^alice\/rocket: 1 reported commit that no ref reaches /])
  const [copy] = (await findBackup(folder)).repositories
  t.same(copy?.content?.commits, [good])
})

t.test('reported commits that do not fit on the disk of the backup are not left out of it', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const rocket = await create(store, 'rocket')
  createCommits(rocket.path, 1)
  const blob = gitWith(rocket.path, randomBytes(16 * MIB), 'hash-object', '-w', '--stdin')
  const tree = gitWith(rocket.path, `100644 blob ${blob}\tlarge`, 'mktree')
  const sha = git(rocket.path, 'commit-tree', '-m', 'large', tree)
  await report(store, rocket, sha)
  const folder = temporaryFolder(t)
  // Writes of git fail, as on a full disk.
  const limitFiles = (size: number | 'unlimited') =>
    execFileSync('prlimit', [`--pid=${process.pid}`, `--fsize=${size}:unlimited`])
  t.teardown(() => limitFiles('unlimited'))
  limitFiles(8 * MIB)
  const { problems, notes } = await backUp(store, folder, defaults, quiet)
  t.match(problems, [/^alice\/rocket: /])
  t.same(notes, [])
  limitFiles('unlimited')
  t.same((await backUp(store, folder, defaults, quiet)).problems, [])
  const [copy] = (await findBackup(folder)).repositories
  t.same(copy?.content?.commits, [sha])
})

t.test('a repository that is deleted while the backup is made is not restored', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const [kept, deleted] = [await create(store, 'kept'), await create(store, 'deleted')]
  for (const { path } of [kept, deleted]) createCommits(path, 1)
  await report(store, deleted, '0'.repeat(40))
  git(kept.path, 'symbolic-ref', 'refs/heads/stable', 'refs/heads/main')
  git(kept.path, 'symbolic-ref', 'HEAD', 'refs/heads/stable')
  const folder = temporaryFolder(t)
  let deletion: Promise<unknown> | undefined
  const remove = AsyncLocalStorage.bind(() =>
    asAdministrator(store).repositories.delete({ owner: 'alice', name: 'deleted' }),
  )
  await backUp(store, folder, defaults, (what) => {
    if (what === 'statuses') deletion = remove()
  })
  await deletion
  const { store: restored } = await restore(t, folder)
  t.same(
    (await restored.repositories.list()).map(({ name }) => name),
    ['kept'],
  )
  t.same(await refsOf(restored), await refsOf(store), 'a chain of symbolic refs is restored as one')
})
