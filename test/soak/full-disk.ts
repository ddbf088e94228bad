import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { defaultMessage } from '../../src/errors.ts'
import { backUp } from '../../src/maintenance/backup/back-up.ts'
import { listBackups } from '../../src/maintenance/backup/generations.ts'
import { findBackup, restoreAll } from '../../src/maintenance/backup/restore.ts'
import { basic, commit, createCheckout, git as runGit, tryGit } from '../git-http/client.ts'
import { beginRpc, namedSpoolFiles } from '../git-http/raw.ts'
import { asAdministrator } from '../helpers/changes.ts'
import {
  databaseUrl,
  execute,
  openTestStore,
  type TestDatabase,
  temporaryFolder,
} from '../helpers/databases.ts'
import { listPushes } from '../helpers/events.ts'
import { git, gitWith } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { startPostgres, unprivileged } from '../helpers/postgres-server.ts'
import { addReport, addRepository } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { readContent } from './backup/content.ts'
import { recordEvidence } from './parts/evidence.ts'
import { fill, freeBytes, MIB, mount } from './parts/small-disk.ts'

const METRICS_TOKEN = 'a-metrics-token-of-32-characters'

tap.setTimeout(300_000)

const sqlite = async (_t: Test, disk: string): Promise<TestDatabase> => ({
  name: 'SQLite',
  create: async () => ({ dataDir: disk }),
})

/** The log is on another disk, which is not full: the server itself goes on. */
const postgres = async (t: Test, disk: string): Promise<TestDatabase> => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const tables = join(disk, 'tables')
  mkdirSync(tables)
  const account = unprivileged()
  if (account) chownSync(tables, account.uid, account.gid)
  await execute(
    server.url,
    `create tablespace small location '${tables}'`,
    'create database status tablespace small',
  )
  return {
    name: 'PostgreSQL',
    create: async (t) => ({ dataDir: t.testdir(), databaseUrl: databaseUrl(server.url, 'status') }),
  }
}

for (const [name, create] of Object.entries({ SQLite: sqlite, PostgreSQL: postgres })) {
  tap.test(`${name} on a disk that is full`, async (t) => {
    const disk = mount(t)
    const { createRepository, createToken, options } = await startServer(t, {
      database: await create(t, disk),
    })
    const { commits } = await createRepository('acme/rocket')
    const [sha = ''] = commits
    const token = await createToken('acme')
    const instance = await startInstance(t, options, { METRICS_TOKEN })
    const acknowledged: string[] = []
    const report = async (context: string) => {
      const body = { state: 'success', context, description: 'd'.repeat(1_024) }
      const { status } = await instance.report('acme/rocket', sha, body, token)
      if (status === 201) acknowledged.push(context)
      return status
    }
    const ready = async () => (await instance.call('GET', '/readyz')).status
    for (let index = 0; index < 100; index++) await report(`before ${index}`)
    t.equal(acknowledged.length, 100)
    t.equal(await ready(), 200)

    const makeRoom = fill(disk)
    // Some still find room in what the database has allocated.
    let full = 0
    for (let index = 0; full < 20; index++) {
      const status = await report(`full ${index}`)
      t.ok(status === 201 || status === 503)
      if (status === 503) full++
      if (full === 1) await setTimeout(1_100)
    }
    t.equal(await ready(), 503)
    t.equal((await instance.read('acme/rocket', sha)).status, 200)
    t.equal((await instance.call('GET', '/healthz')).status, 200)
    const { status, body } = await instance.call('GET', '/metrics', { token: METRICS_TOKEN })
    t.equal(status, 200)
    const [, errors] = /^commit_status_server_errors_total (\d+)$/m.exec(body) ?? []
    t.ok(Number(errors) >= full, `${errors} errors counted`)
    for (const figure of ['disk_free_bytes', 'blocked_addresses', 'backup_timestamp_seconds'])
      t.match(body, new RegExp(`^commit_status_${figure} `, 'm'))
    t.comment(/^.*commit_status_disk_free_bytes \d.*$/m.exec(body)?.[0])
    t.equal((await instance.call('GET', '/metrics', { token: 'wrong' })).status, 401)

    makeRoom()
    const since = performance.now()
    while ((await ready()) !== 200) await setTimeout(100)
    t.comment(`${name}: ready again after ${Math.round(performance.now() - since)} ms`)
    t.equal(await report('after'), 201)
    const { json } = await instance.read('acme/rocket', sha)
    const stored = new Set(json.statuses?.map(({ context }) => context))
    t.same(
      acknowledged.filter((context) => !stored.has(context)),
      [],
    )
    t.equal(acknowledged.length, stored.size, 'nothing that was refused')
    if (t.counts.fail > 0) return
    recordEvidence(
      'full-disk',
      `the disk of ${name} was filled, under reports`,
      `${full} reports refused with 503: none of ${acknowledged.length} acknowledged ones was lost`,
    )
  })
}

tap.test('pushes to a disk that is full, and fetches from it', async (t) => {
  const disk = mount(t)
  const { createRepository, createToken, options, store } = await startServer(t, {
    database: await sqlite(t, disk),
  })
  const { path } = await createRepository('acme/rocket')
  const authorization = basic('x', await createToken('acme'))
  const instance = await startInstance(t, options)
  const url = `${instance.url}/acme/rocket.git`
  const checkout = await createCheckout(t, url)
  await commit(checkout, 5 * MIB)
  const push = (branch: string, config = {}) =>
    tryGit(checkout, ['push', 'origin', `HEAD:refs/heads/${branch}`], { authorization, config })
  const ready = async () => (await instance.call('GET', '/readyz')).status
  t.match(await push('before'), { code: 0 })
  await commit(checkout, 5 * MIB)
  const refs = git(path, 'for-each-ref')
  const events = async () => (await listPushes(store)).length
  const leftovers = () =>
    readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((file) =>
      /incoming|\.lock$|tmp_/.test(file),
    )
  t.equal(await events(), 1)

  const makeRoom = fill(disk)
  for (const config of [{}, { 'http.postBuffer': '65536' }])
    t.match((await push('full', config)).stderr, `-> full (${defaultMessage('no_room')})`)
  for (const body of [Buffer.alloc(12 * MIB, 'x'), Buffer.alloc(10, 'x')]) {
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
    request.end(body)
    const { status, headers } = await answer
    t.equal(status, 503)
    t.ok(Number(headers['retry-after']) >= 1)
  }
  await setTimeout(1_100)
  t.equal(await ready(), 503)
  // The answer is larger than what is kept in memory.
  const clone = join(t.testdir(), 'clone')
  await Promise.all(
    ['a', 'b', 'c'].map((name) => runGit(disk, ['clone', '--quiet', '--mirror', url, `${clone}-${name}`])),
  )
  t.equal(git(`${clone}-a`, 'for-each-ref'), refs)
  makeRoom()
  await setTimeout(1_100)
  t.equal(await ready(), 200)

  // The push can be received, but not stored: git writes the first file while the second is still
  // in the spool.
  await commit(checkout, 5 * MIB)
  const free = freeBytes(disk)
  const makeMore = fill(disk, 12 * MIB)
  const refused = await push('half')
  t.equal(refused.code, 1)
  t.match(refused.stderr, /unpacker error/)
  makeMore()
  t.equal(git(path, 'for-each-ref'), refs)
  t.same(leftovers(), [])
  t.same(namedSpoolFiles(disk), [])
  t.ok(free - freeBytes(disk) < MIB, 'nothing is left of it')
  t.equal(await events(), 1)
  t.same(await store.pushes.listOpen(0), [])
  t.match(await push('after'), { code: 0 })
  t.equal(await events(), 2)
})

tap.test('backups to a disk that is full, and restores to one', async (t) => {
  const { store, options } = await openTestStore(t, await sqlite(t, temporaryFolder(t)))
  await asAdministrator(store).users.create('acme')
  const { id: repositoryId, path, commits } = await addRepository(store, 'acme/rocket', { commits: 3 })
  const [sha = ''] = commits
  const grow = async (round: number) => {
    const blob = gitWith(path, randomBytes(MIB), 'hash-object', '-w', '--stdin')
    git(path, 'update-ref', `refs/tags/blob-${round}`, blob)
    for (let index = 0; index < 300; index++)
      await addReport({ store, repositoryId, sha }, `${round} ${index} ${'c'.repeat(200)}`)
  }
  const backups = join(mount(t), 'backups')
  await grow(0)
  await backUp(store, backups, { keep: 7, imported: false }, () => {})
  const first = await readContent(options)
  const [former = ''] = await listBackups(backups)

  /** Tries with ever more room until it works. Returns how often it has failed. */
  const withMoreRoom = async (disk: string, work: () => Promise<unknown>, check: () => Promise<void>) => {
    for (let failures = 0; ; failures++) {
      const makeRoom = fill(disk, failures * 48 * 1024)
      const isDone = await work().then(
        () => true,
        () => false,
      )
      makeRoom()
      await check()
      if (isDone) return failures
    }
  }

  await grow(1)
  const restoreFrom = async (name: string) => {
    const dataDir = join(t.testdir(), randomBytes(4).toString('hex'))
    await restoreAll({ dataDir }, await findBackup(backups, name), () => {})
    const content = await readContent({ dataDir })
    rmSync(dataDir, { recursive: true })
    return content
  }
  const failedBackups = await withMoreRoom(
    join(backups, '..'),
    () => backUp(store, backups, { keep: 7, imported: false }, () => {}),
    async () => void t.same(await restoreFrom(former), first, 'the earlier backup is whole'),
  )
  t.ok(failedBackups >= 5, `${failedBackups} backups failed`)
  const second = await readContent(options)
  t.same(await restoreFrom(''), second)

  const disk = mount(t)
  const dataDir = join(disk, 'new')
  const newest = await findBackup(backups)
  let isRestored = false
  const failedRestores = await withMoreRoom(
    disk,
    async () => {
      await restoreAll({ dataDir }, newest, () => {})
      isRestored = true
    },
    async () => {
      if (isRestored) t.same(await readContent({ dataDir }), second)
      else t.notOk(existsSync(join(dataDir, 'commit-status.db')), 'no server would start with a part')
    },
  )
  t.ok(failedRestores >= 10, `${failedRestores} restores failed`)
  if (t.counts.fail > 0) return
  recordEvidence(
    'full-disk',
    'the disk was filled in the middle of backups and restores',
    `${failedBackups} backups and ${failedRestores} restores failed: no earlier backup was lost, nothing was restored in part, and the next ones with room were whole`,
  )
})

tap.test('a disk without inodes', async (t) => {
  const disk = mount(t, ',nr_inodes=1000')
  const { options } = await startServer(t, { database: await sqlite(t, disk) })
  const instance = await startInstance(t, options)
  const ready = async () => (await instance.call('GET', '/readyz')).status
  t.equal(await ready(), 200)
  const filler = join(disk, 'filler')
  mkdirSync(filler)
  for (let index = 0; index < 900; index++) writeFileSync(join(filler, `${index}`), '')
  await setTimeout(1_100)
  t.equal(await ready(), 503)
  rmSync(filler, { recursive: true })
  await setTimeout(1_100)
  t.equal(await ready(), 200)
})
