import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ADMINISTRATOR } from '../../src/domain/actors.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openRepository } from '../../src/git/opened-repository.ts'
import { backUp } from '../../src/maintenance/backup/back-up.ts'
import { listBackups } from '../../src/maintenance/backup/generations.ts'
import { findBackup } from '../../src/maintenance/backup/restore.ts'
import { checkAll } from '../../src/maintenance/check.ts'
import { compareWithExpectedRefs } from '../../src/maintenance/expected-refs.ts'
import { BACKUP } from '../../src/store/audit/audit.ts'
import type { PushOutcome } from '../../src/store/repositories/push-events.ts'
import { databases, openTestStore, sqlite, type TestDatabase, temporaryFolder } from '../helpers/databases.ts'
import { createCommits, git } from '../helpers/git.ts'
import { addRepository } from '../helpers/records.ts'

const NONE = '0'.repeat(40)

/** A service with one repository, which is pushed to without a server. */
async function start(t: Test, database: TestDatabase = sqlite) {
  const { store } = await openTestStore(t, database)
  const lookup = new CommitLookup()
  t.teardown(() => lookup.close())
  const repository = await addRepository(store, 'alice/rocket', { commits: 0 })
  const { path, id } = repository
  // Events of the second in which a repository is created are not read.
  await store.engine.kysely.updateTable('repositories').set({ created_at: 1 }).execute()
  const commits = createCommits(path, 3, 'scratch')
  git(path, 'update-ref', '-d', 'refs/heads/scratch')
  const [a = '', b = '', c = ''] = commits
  const user = { id: 1, name: 'alice' }
  const by = { kind: 'user', user, token: { id: 'f00d', name: 'CI' }, address: '127.0.0.1' } as const
  const pusher = { by, repositoryId: id, repositoryName: 'alice/rocket' }
  const folder = join(temporaryFolder(t), 'backups')
  const record = async (outcome: PushOutcome) => {
    await store.pushes.settle(await store.pushes.open(pusher, []), pusher, outcome)
  }
  return {
    store,
    repository,
    path,
    commits: { a, b, c },
    record,
    begin: (ref: string) => store.pushes.open(pusher, [{ ref, old: NONE, new: a }]),
    async push(ref: string, old: string, id: string) {
      git(path, 'update-ref', ...(id === NONE ? ['-d', ref] : [ref, id]))
      await record({ updates: [{ ref, old, new: id }] })
    },
    async backUp() {
      await backUp(store, folder, { keep: 7, imported: false }, () => {})
      return (await findBackup(folder, (await listBackups(folder)).at(-1))).repositories
    },
    async check(copies?: Awaited<ReturnType<typeof findBackup>>['repositories'], onProgress = () => {}) {
      const options = { full: true, commits: false, prune: false, ...(copies && { copies }) }
      const { findings } = await checkAll(store, lookup, options, onProgress)
      return findings.map((text) => text.replace(/^repository alice\/rocket: /, ''))
    },
  }
}

for (const database of databases)
  t.test(`${database.name}: finds refs of the backup and of pushes that are lost`, async (t) => {
    const { path, commits, push, backUp, check } = await start(t, database)
    const { a, b, c } = commits
    await push('refs/heads/old', NONE, a)
    git(path, 'update-ref', 'refs/heads/disk', a)
    const copies = await backUp()
    t.same(await check(copies), [])
    await push('refs/heads/disk', a, b)
    await push('refs/heads/new', NONE, c)
    await push('refs/heads/gone', NONE, c)
    await push('refs/heads/gone', c, NONE)
    git(path, 'pack-refs', '--all')
    t.same(await check(copies), [])
    renameSync(join(path, 'packed-refs'), join(path, 'away'))
    const lost = await check(copies)
    t.equal(lost.length, 3)
    t.match(lost.sort(), [
      new RegExp(`^refs/heads/disk is missing; expected ${b} \\(push of 20.*Z\\)$`),
      new RegExp(`^refs/heads/new is missing; expected ${c} \\(push of 20.*Z\\)$`),
      new RegExp(`^refs/heads/old is missing; expected ${a} \\(backup of 20.*Z\\)$`),
    ])
    t.match((await check()).sort(), [/heads\/disk .*push of/, /heads\/new/, /heads\/old .*push of/])
    renameSync(join(path, 'away'), join(path, 'packed-refs'))
    git(path, 'update-ref', 'refs/heads/old', b)
    t.match(await check(copies), [new RegExp(`^refs/heads/old is ${b}; expected ${a} \\(backup of`)])
  })

t.test('names 20 lost refs of a repository, and says how many more there are', async (t) => {
  const { path, commits, record, check } = await start(t)
  const pushed = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ ref: `refs/tags/v${index}`, old: NONE, new: commits.a }))
  await record({ updates: pushed(23) })
  t.equal((await check()).length, 21)
  t.match((await check()).at(-2), /^refs\/tags\/v19 is missing/)
  t.equal((await check()).at(-1), 'and 3 more refs like these')
  git(path, 'tag', 'v22', commits.a)
  git(path, 'tag', 'v3', commits.a)
  t.equal((await check()).at(-1), 'and 1 more ref like these')
  git(path, 'tag', 'v4', commits.a)
  t.match((await check()).slice(-1), [/^refs\/tags\/v21 is missing/])
})

t.test('judges no ref that may have been moved', async (t) => {
  const { path, store, repository, commits, backUp, check, record, begin } = await start(t)
  const { a, b, c } = commits
  for (const name of ['main', 'open', 'unknown', 'target', 'between'])
    git(path, 'update-ref', `refs/heads/${name}`, a)
  git(path, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/target')
  const copies = await backUp()
  for (const name of ['open', 'unknown', 'target', 'between'])
    git(path, 'update-ref', `refs/heads/${name}`, b)
  t.equal((await check(copies)).length, 3, 'of four, without the target of a symbolic ref')

  const unknown = { ref: 'refs/heads/unknown', old: a, new: c }
  await record({ updates: [], unknown: [unknown], interrupted: true })
  await record({ updates: [{ ref: 'refs/heads/between', old: c, new: a }] })
  await begin('refs/heads/open')
  t.same(await check(copies), [])
  git(path, 'update-ref', 'refs/heads/between', a)

  const comparison = await compareWithExpectedRefs(store, copies)
  git(path, 'update-ref', 'refs/heads/main', b)
  await comparison.add({ ...repository, createdAt: 1 }, await openRepository(repository))
  t.match(await comparison.findings(), [/refs\/heads\/main is/])
  await record({ updates: [{ ref: 'refs/heads/main', old: a, new: b }] })
  t.same(await comparison.findings(), [], 'moved by a push after the events were read')
  t.same(await check(copies), [])

  git(path, 'update-ref', '-d', 'refs/heads/main')
  t.match(await check(copies), [/^refs\/heads\/main is missing/])
  const many = Array.from({ length: 51 }, (_, n) => ({ ref: `refs/tags/${n}`, old: NONE, new: a }))
  const set = store.engine.kysely.updateTable('repositories')
  await set.set({ path }).where('id', '=', repository.id).execute()
  t.same(await check(copies), [], 'imported')
  await set.set({ path: null }).where('id', '=', repository.id).execute()
  const details = { created_at: '', locked: 0 }
  await store.audit.transaction(ADMINISTRATOR, (change) =>
    change.record({ object: BACKUP, action: 'backup.restored', details }),
  )
  t.same(await check(copies), [], 'a backup from before the restore')
  await record({ updates: [{ ref: 'refs/heads/main', old: NONE, new: a }] })
  t.match(await check(copies), [/^refs\/heads\/main is missing; .* \(push of/])
  await record({ updates: many })
  t.same(await check(copies), [], 'an event that lists only a part')
})

t.test('reads the pushes of a host whose clock is behind that of the backup', async (t) => {
  const { path, commits, push, backUp, check } = await start(t)
  git(path, 'update-ref', 'refs/heads/main', commits.a)
  const copies = await backUp()
  const { now } = Date
  t.capture(Date, 'now', () => now() - 30_000)
  await push('refs/heads/main', commits.a, commits.b)
  t.same(await check(copies), [])
})

for (const action of ['repository.renamed', 'repository.transferred'] as const)
  t.test(`judges no repository since the backup after an event ${action}`, async (t) => {
    const { path, store, repository, commits, backUp, check } = await start(t)
    git(path, 'update-ref', 'refs/heads/main', commits.a)
    const copies = await backUp()
    git(path, 'update-ref', 'refs/heads/main', commits.b)
    t.equal((await check(copies)).length, 1)
    const renamed = { id: repository.id, name: 'alice/rocket' }
    await store.audit.transaction(ADMINISTRATOR, (change) =>
      change.record({ repository: renamed, action, details: { from: 'alice/former' } }),
    )
    t.same(await check(copies), [])
  })

t.test('finds a missing config and a state that does not exist', async (t) => {
  const { path, store, repository, commits, check } = await start(t)
  t.same(await check(), [])
  const status = { context: 'ci', state: 'success', description: null, target_url: null } as const
  await store.statuses.report({ repositoryId: repository.id, sha: commits.a, ...status })
  await store.engine.kysely
    .updateTable('statuses')
    .set({ state: 'x' as 'error' })
    .execute()
  rmSync(join(path, 'config'))
  t.same(await check(), [
    'statuses: rows with the unknown state "x": 1',
    `${join(path, 'config')} is missing`,
  ])
  writeFileSync(join(path, 'config'), '[core]\n\tbare = true\n')
  t.match(await check(), { length: 1 })
})
