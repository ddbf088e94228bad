import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import Sqlite from 'better-sqlite3'
import t from 'tap'
import { ADMINISTRATOR, type Administrator } from '../../src/domain/actors.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import { type CheckOptions, checkAll } from '../../src/maintenance/check.ts'
import { deleteRepository } from '../../src/repositories/delete.ts'
import type { Transact } from '../../src/store/audit/change.ts'
import { openEngine, openStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, execute, sqlite, type TestDatabase } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { createCommits, git, gitWith, replaceGit } from '../helpers/git.ts'
import { addReport } from '../helpers/records.ts'

async function open(t: Parameters<TestDatabase['create']>[0], database: TestDatabase) {
  const options = await database.create(t)
  const store = await openStore(options)
  const engine = await openEngine(options)
  const lookup = new CommitLookup()
  t.teardown(async () => {
    await lookup.close()
    await engine.close()
    await store.close()
  })
  const rocket = { owner: 'alice', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  const repository = await asAdministrator(store).repositories.create(rocket)
  await createBareRepository(repository.path, 'sha1')
  return {
    store,
    repository,
    check: (choice: Partial<CheckOptions> = {}, onProgress = () => {}) =>
      checkAll(store, lookup, { full: false, commits: false, prune: false, ...choice }, onProgress),
    /** Runs a statement without the foreign keys' checks. */
    async spoil(statement: string): Promise<void> {
      if (options.databaseUrl) {
        await execute(options.databaseUrl, `set session_replication_role = replica`, statement)
      } else {
        const database = new Sqlite(`${options.dataDir}/commit-status.db`)
        database.pragma('foreign_keys = off')
        database.exec(statement)
        database.close()
      }
    },
  }
}

t.test('SQLite: finds rows that refer to a missing one, and removes nothing', async (t) => {
  const { store, repository, check, spoil } = await open(t, sqlite)
  const [sha = ''] = createCommits(repository.path, 1)
  await addReport({ store, repositoryId: repository.id, sha }, 'default')
  t.same(await check({ commits: true }), { findings: [], trusted: [], pruned: [], damaged: false })
  const insert =
    'insert into statuses (repository_id, sha, context, id, state, created_at, updated_at) values'
  for (const context of ['one', 'two'])
    await spoil(`${insert} (4711, '${sha}', '${context}', 'x', 'success', 1, 1)`)
  await spoil(`insert into branch_rule_bypasses values (3, 4714)`)
  const findings = [
    'branch_rule_bypasses: rows that refer to missing branch_rules: 1',
    'branch_rule_bypasses: rows that refer to missing users: 1',
    'statuses: rows that refer to missing repositories: 2',
  ]
  const damaged = { findings, trusted: [], pruned: [], damaged: true }
  t.same(await check({ commits: true, prune: true }), damaged)
  t.same(await check(), damaged)
})

for (const database of databases) {
  t.test(`${database.name}: finds commits that are no longer in git`, async (t) => {
    const { store, repository, check, spoil } = await open(t, database)
    const [kept = '', gone = ''] = createCommits(repository.path, 2)
    git(repository.path, 'update-ref', 'refs/heads/main', kept)
    git(repository.path, '-c', 'gc.reflogExpire=now', 'gc', '--quiet', '--prune=now')
    await addReport({ store, repositoryId: repository.id, sha: kept }, 'default')
    await addReport({ store, repositoryId: repository.id, sha: gone }, 'one')
    await addReport({ store, repositoryId: repository.id, sha: gone }, 'two')
    t.same((await check()).findings, [], 'only with the option')
    const finding = `commit alice/rocket ${gone}: no longer in git`
    t.same(await check({ commits: true }), { findings: [finding], trusted: [], pruned: [], damaged: false })
    t.equal((await store.statuses.list(repository.id, gone)).length, 2)
    await spoil('update statuses set created_at = 1, updated_at = 1')
    t.same(await check({ commits: true, prune: true }), {
      findings: [],
      trusted: [],
      pruned: [finding],
      damaged: false,
    })
    t.equal((await store.statuses.list(repository.id, gone)).length, 0)
    t.equal((await store.statuses.list(repository.id, kept)).length, 1)
    t.match((await listEvents(store)).at(-1), {
      action: 'statuses.pruned',
      actor: 'administrator',
      details: { no_longer_in_git: true, commits: 1, statuses: 2 },
    })
    t.same(await check({ commits: true }), { findings: [], trusted: [], pruned: [], damaged: false })
  })

  t.test(`${database.name}: finds folders without a row, and rows without a folder`, async (t) => {
    const { store, repository, check } = await open(t, database)
    const stray = join(dirname(repository.path), '4711.git')
    renameSync(repository.path, stray)
    const passing = join(dirname(repository.path), '4712.git')
    mkdirSync(passing)
    // After the first reading of the folders, and before the second.
    const remove = () => setTimeout(() => rmSync(passing, { recursive: true }), 500)
    const { findings, pruned } = await check({ prune: true }, remove)
    t.match(findings.shift(), `repository alice/rocket: ${repository.path} is not`)
    t.match(findings.shift(), `folder ${stray}: belongs to no repository; serve it with "repo import"`)
    t.same([findings, pruned], [[], []])
    t.ok(existsSync(stray), 'keeps the folder, even with --prune')
    const path = await realpath(stray)
    await asAdministrator(store).repositories.create({
      owner: 'alice',
      name: 'again',
      visibility: 'public',
      objectFormat: 'sha1',
      path,
    })
    t.equal((await check()).findings.length, 1, 'after the import, only the row without a folder is left')
  })

  t.test(`${database.name}: finds nothing of a repository that is deleted meanwhile`, async (t) => {
    const { store, repository, check } = await open(t, database)
    const [sha = ''] = createCommits(repository.path, 1)
    await addReport({ store, repositoryId: repository.id, sha }, 'default')
    const list = store.repositories.list
    t.capture(store.repositories, 'list', async () => {
      const repositories = await list()
      const remove: Transact<Administrator> = (work) => store.audit.transaction(ADMINISTRATOR, work)
      if (repositories.length > 0) await deleteRepository(remove, store, { owner: 'alice', name: 'rocket' })
      return repositories
    })
    t.same((await check({ full: true, commits: true })).findings, [])
    t.notOk(existsSync(repository.path))
  })

  t.test(`${database.name}: keeps the statuses of a repository that cannot be opened`, async (t) => {
    const { store, repository, check } = await open(t, database)
    const [sha = ''] = createCommits(repository.path, 1)
    await addReport({ store, repositoryId: repository.id, sha }, 'default')
    renameSync(repository.path, join(dirname(dirname(repository.path)), 'away'))
    const { findings, pruned } = await check({ commits: true, prune: true })
    t.equal(findings.length, 1)
    t.match(findings[0], /^repository alice\/rocket: .*cannot be opened|is not a git repository/)
    t.same(pruned, [])
    t.equal((await store.statuses.list(repository.id, sha)).length, 1)
  })
}

t.test('finds objects that are missing or changed, and keeps the statuses of their repository', async (t) => {
  const { store, repository, check } = await open(t, sqlite)
  const { path } = repository
  git(path, 'config', 'gc.auto', '0')
  const object = (id: string) => join(path, 'objects', id.slice(0, 2), id.slice(2))
  const blob = gitWith(path, 'content', 'hash-object', '-w', '--stdin')
  const tree = gitWith(path, `100644 blob ${blob}\tfile\n`, 'mktree')
  const commit = git(path, 'commit-tree', tree, '-m', 'message')
  git(path, 'update-ref', 'refs/heads/main', commit)
  git(path, 'symbolic-ref', 'refs/remotes/origin/HEAD', 'refs/remotes/origin/main')
  const gone = '1'.repeat(40)
  await addReport({ store, repositoryId: repository.id, sha: gone }, 'default')
  await store.engine.kysely.updateTable('statuses').set({ created_at: 1, updated_at: 1 }).execute()
  const prune = async () => {
    const { findings, pruned } = await check({ commits: true, prune: true })
    t.same(pruned, [])
    t.equal((await store.statuses.list(repository.id, gone)).length, 1)
    return findings.map((text) => text.replace(/^repository alice\/rocket: /, ''))
  }
  t.same((await check({ full: true })).findings, [], 'a symbolic ref without its branch is fine')

  chmodSync(object(blob), 0o600)
  const intact = readFileSync(object(blob))
  writeFileSync(object(blob), Buffer.from(intact).fill(0, 4))
  t.same((await check()).findings, [], 'only commits and trees are read')
  t.match((await check({ full: true })).findings.join('\n'), new RegExp(blob))

  rmSync(object(blob))
  t.same(await prune(), [`missing blob ${blob}`, 'its commits are not looked up until it is repaired'])
  renameSync(object(tree), join(path, 'tree'))
  t.same((await prune())[0], `missing tree ${tree}`)
  renameSync(object(commit), join(path, 'commit'))
  t.match(await prune(), [/is damaged: bad ref HEAD /])
  renameSync(join(path, 'commit'), object(commit))
  renameSync(join(path, 'tree'), object(tree))
  writeFileSync(object(blob), intact)

  const finding = `commit alice/rocket ${gone}: no longer in git`
  t.match(await check({ full: true, commits: true, prune: true }), { findings: [], pruned: [finding] })
})

t.test('names damage among many flaws that pushes and imports may have, and no flaw', async (t) => {
  const { repository, check } = await open(t, sqlite)
  const { path } = repository
  git(path, 'config', 'gc.auto', '0')
  const store = (type: string, content: string | Buffer) =>
    gitWith(path, content, 'hash-object', '--literally', '-w', '-t', type, '--stdin')
  const blob = store('blob', 'content')
  const tree = store('tree', Buffer.concat([Buffer.from('0100644 file\0'), Buffer.from(blob, 'hex')]))
  let commit = store('commit', `tree ${tree}\nauthor a <>1 +0000\ncommitter a 1 +00000\n\nmessage\n`)
  for (let index = 0; index < 200; index++)
    commit = store(
      'commit',
      `tree ${tree}\nparent ${commit}\nauthor a <>1 +0000\ncommitter a <>1 +0000\n\nm\n`,
    )
  git(path, 'update-ref', 'refs/heads/main', commit)
  t.same((await check({ full: true })).findings, [])

  // git reads packs last.
  git(path, 'repack', '-a', '-d', '-q')
  const changed = store('blob', 'other content')
  const file = join(path, 'objects', changed.slice(0, 2), changed.slice(2))
  chmodSync(file, 0o600)
  writeFileSync(file, Buffer.from(readFileSync(file)).fill(0, 4))
  const { findings } = await check({ full: true })
  t.match(findings.join('\n'), new RegExp(changed))
  t.notMatch(findings.join('\n'), /missingSpaceBeforeDate/)
})

t.test('a walk through a repository that git does not end is a finding', async (t) => {
  const { repository, check } = await open(t, sqlite)
  createCommits(repository.path, 1)
  replaceGit(t, 'case "$*" in *fsck*) echo warning: of git >&2; kill -9 $$; esac; exec "$git" "$@"')
  t.same((await check({ full: true })).findings, [
    'repository alice/rocket: git fsck was killed before it had read everything',
  ])
})

t.test('names the first of many missing objects', async (t) => {
  const { repository, check } = await open(t, sqlite)
  const list = Array.from(
    { length: 25 },
    (_, index) => `100644 blob ${String(index).padStart(40, '3')}\tf${index}\n`,
  )
  const { path } = repository
  const tree = gitWith(path, list.join(''), 'mktree', '--missing')
  git(path, 'update-ref', 'refs/heads/main', git(path, 'commit-tree', tree, '-m', 'message'))
  const { findings } = await check()
  t.equal(findings.length, 20)
  t.ok(findings.every((text) => text.startsWith('repository alice/rocket: missing blob 333')))
})
