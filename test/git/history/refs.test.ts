import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { RepositoryUnavailable } from '../../../src/git/errors.ts'
import { createGitQueue } from '../../../src/git/history/cached-reads.ts'
import { CommitLog } from '../../../src/git/history/log.ts'
import { RefLists } from '../../../src/git/history/ref-lists.ts'
import type { RepositoryFiles } from '../../../src/git/opened-repository.ts'
import { readRefsState } from '../../../src/git/refs/head.ts'
import { isBranchName, isRefName } from '../../../src/git/refs/read-refs.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import type { QueueClient } from '../../../src/schedule/fair-queue.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { git, importCommits, replaceGit } from '../../helpers/git.ts'

const CLIENT = { address: '192.0.2.1' }
const TAGGER = ['-c', 'user.name=T', '-c', 'user.email=t@example.org']

async function createRepository(t: Test) {
  const path = join(temporaryFolder(t), 'r.git')
  await createBareRepository(path, 'sha1')
  return { path, repository: { path, ownerTrust: 'trusted' } as const }
}

t.test('lists branches and tags, the newest first, and HEAD', async (t) => {
  const { path, repository } = await createRepository(t)
  const refs = new RefLists(createGitQueue())
  const none = { defaultBranch: 'main', head: null, branches: [], tags: [], more: false }
  t.same(await refs.list(repository, CLIENT), none)

  const commits = importCommits(path, 4)
  const [first = '', second = '', third = '', fourth = ''] = commits
  git(path, 'update-ref', 'refs/heads/old', first)
  git(path, 'update-ref', 'refs/heads/feature/x', fourth)
  git(path, 'update-ref', 'refs/tags/light', second)
  git(path, ...TAGGER, 'tag', '-a', '-m', 'v1', 'v1', third)
  git(path, 'update-ref', 'refs/tags/tree', `${first}^{tree}`)
  const unborn = await refs.list(repository, CLIENT)
  t.match(unborn, { defaultBranch: 'main', head: null, more: false })
  t.same(
    unborn.branches.map(({ name, sha }) => [name, sha]),
    [
      ['feature/x', fourth],
      ['old', first],
    ],
  )
  t.same(
    unborn.tags.map(({ name, sha }) => [name, sha]),
    [
      ['v1', third],
      ['light', second],
    ],
    'a tag leads to its commit, and one of a tree is left out',
  )
  t.equal(unborn.branches[1]?.date, '2023-11-14T22:13:20.000Z')

  git(path, 'symbolic-ref', 'HEAD', 'refs/heads/old')
  t.match(await refs.list(repository, CLIENT), { defaultBranch: 'old', head: first })
  git(path, 'update-ref', '--no-deref', 'HEAD', second)
  t.match(await refs.list(repository, CLIENT), { defaultBranch: null, head: second })
  const few = await new RefLists(createGitQueue(), { count: 1 }).list(repository, CLIENT)
  t.match(few, { more: true, head: second })
  t.equal(few.branches.length + few.tags.length, 1)

  writeFileSync(join(path, 'HEAD'), 'ref: refs/heads/main\n')
  renameSync(join(path, 'refs'), join(path, 'elsewhere'))
  await t.rejects(refs.list(repository, CLIENT), RepositoryUnavailable)
})

for (const [when, ahead] of [
  ['soon after the one before', 0],
  ['while the list is cached', 10_000],
] as const)
  t.test(`every change of a ref takes effect at once, ${when}`, async (t) => {
    const now = Date.now
    t.capture(Date, 'now', () => now() + ahead)
    const { path, repository } = await createRepository(t)
    const refs = new RefLists(createGitQueue())
    const commits = importCommits(path, 12)
    const next = () => commits.pop() ?? ''
    const changes: Record<string, () => unknown> = {
      'a branch': () => git(path, 'update-ref', 'refs/heads/main', next()),
      'the same branch': () => git(path, 'update-ref', 'refs/heads/main', next()),
      'and once more': () => git(path, 'update-ref', 'refs/heads/main', next()),
      'a branch in folders': () => git(path, 'update-ref', 'refs/heads/a/b/c', next()),
      'that branch again': () => git(path, 'update-ref', 'refs/heads/a/b/c', next()),
      'a tag': () => git(path, 'update-ref', 'refs/tags/v/1', next()),
      'packed refs': () => git(path, 'pack-refs', '--all'),
      'a packed branch': () => git(path, 'update-ref', 'refs/heads/a/b/c', next()),
      'a deleted branch': () => git(path, 'update-ref', '-d', 'refs/heads/a/b/c'),
      'a deleted tag': () => git(path, 'update-ref', '-d', 'refs/tags/v/1'),
      'another HEAD': () => git(path, 'symbolic-ref', 'HEAD', 'refs/heads/other'),
      'its branch': () => git(path, 'update-ref', 'refs/heads/other', next()),
    }
    for (const [name, change] of Object.entries(changes)) {
      change()
      const { branches, tags, defaultBranch } = await refs.list(repository, CLIENT)
      const listed = [...branches, ...tags].map(({ kind, name, sha }) => `${sha} ${kind} ${name}`)
      const expected = git(
        path,
        'for-each-ref',
        '--format=%(objectname) %(refname)',
        'refs/heads',
        'refs/tags',
      )
        .replaceAll('refs/heads/', 'branch ')
        .replaceAll('refs/tags/', 'tag ')
      t.same(listed.sort(), expected.split('\n').sort(), name)
      t.equal(`refs/heads/${defaultBranch}`, git(path, 'symbolic-ref', 'HEAD'), name)
    }
  })

t.test('a bounded number of folders is looked at for changes', async (t) => {
  const { path } = await createRepository(t)
  for (let index = 0; index < 2_100; index++) mkdirSync(join(path, 'refs/heads', String(index)))
  const { paths } = await readRefsState(path)
  t.ok(paths.length > 2_000 && paths.length < 2_010, `${paths.length} files and folders`)
})

t.test('names match exactly and are never revision syntax', async (t) => {
  const { path, repository } = await createRepository(t)
  const [first = '', second = '', third = ''] = importCommits(path, 3)
  git(path, 'update-ref', 'refs/heads/main', first)
  git(path, 'update-ref', 'refs/heads/both', first)
  git(path, 'update-ref', 'refs/tags/both', second)
  git(path, 'update-ref', 'refs/heads/feature/x', second)
  git(path, 'update-ref', 'refs/heads/refs/heads/main', third)
  for (const count of [100, 1]) {
    const lists = new RefLists(createGitQueue(), { count })
    const refs = await lists.list(repository, CLIENT)
    const find = async (name: string) => (await lists.find(repository, refs, name, CLIENT))?.sha
    t.equal(await find('main'), first)
    t.equal(await find('both'), first, 'a branch comes before a tag')
    t.equal(await find('feature/x'), second)
    t.equal(await find('refs/heads/main'), third, 'a branch that is named like a ref')
    for (const name of [
      ...['feature', 'feature/', '/main', 'ma*', 'mai?', 'Main', 'main~1', 'main^', 'main^{tree}', '@', ''],
      ...['@{-1}', 'HEAD', ':/Commit', 'main..feature/x', '--help', '-h', '--all', first, first.slice(0, 8)],
      ...['\0', 'main\0', 'main\n', '../heads/main', 'x'.repeat(5000), 'feature\\x', '[m]ain'],
    ])
      t.equal(await find(name), undefined, JSON.stringify(name.slice(0, 20)))
    if (count > 1) t.equal(await find('refs/tags/both'), second)
  }
  for (const name of [
    'a',
    'a/b',
    'ä',
    'a-',
    'a@b',
    '#1',
    'a.b',
    "it's",
    'a\u{1D41A}',
    'a b',
    'a..b',
    'a.lock',
    '.a',
    'a/.b',
  ])
    t.equal(isRefName(name), gitAccepts(name), name)
  // A push may create them, but no command of git does.
  for (const name of ['@', '-dash']) t.same([isRefName(name), isBranchName(name)], [gitAccepts(name), false])

  function gitAccepts(name: string): boolean {
    try {
      git(path, 'check-ref-format', `refs/heads/${name}`)
      return true
    } catch {
      return false
    }
  }
})

t.test('refs and commits are read once for all who ask at the same time', async (t) => {
  const { path, repository } = await createRepository(t)
  const [sha = ''] = importCommits(path, 3).toReversed()
  git(path, 'update-ref', 'refs/heads/main', sha)
  const folder = temporaryFolder(t)
  const runs = join(folder, 'runs')
  replaceGit(t, `echo "$3" >> ${runs}; exec "$git" "$@"`)
  const queue = createGitQueue()
  const [refs, log] = [new RefLists(queue), new CommitLog(queue)]
  const read = async (client: QueueClient) => {
    const { head } = await refs.list(repository, client)
    return log.history(repository, { first: head ?? '' }, client)
  }
  const pages = await Promise.all(
    Array.from({ length: 50 }, (_, index) => read({ address: `192.0.2.${index}` })),
  )
  t.equal(new Set(pages.map(({ commits }) => commits[0]?.sha)).size, 1)
  t.same(readFileSync(runs, 'utf8').trim().split('\n'), ['for-each-ref', 'log'])
})

t.test('whether HEAD follows pushes is read once until the configuration changes', async (t) => {
  const now = Date.now
  t.capture(Date, 'now', () => now() + 10_000)
  const { path, repository } = await createRepository(t)
  const runs = join(temporaryFolder(t), 'runs')
  replaceGit(t, `echo "$3" >> ${runs}; exec "$git" "$@"`)
  const refs = new RefLists(createGitQueue())
  for (const follows of [false, true, false]) {
    git(path, 'config', 'commitstatus.followpushes', String(follows))
    for (const again of [false, true])
      t.equal(await refs.followsDeletions(repository, CLIENT), follows, again ? 'again' : 'changed')
  }
  t.same(readFileSync(runs, 'utf8').trim().split('\n'), ['config', 'config', 'config'])
})

/** Follows the pages of a history to its end. */
async function readAll(log: CommitLog, repository: RepositoryFiles, first: string) {
  const pages: string[][] = []
  let from: Parameters<CommitLog['history']>[1] = { first }
  for (;;) {
    const { commits, after } = await log.history(repository, from, CLIENT)
    pages.push(commits.map(({ sha }) => sha))
    if (after === null) return { pages, all: pages.flat() }
    from = { after }
  }
}

t.test('pages of a history contain every commit once, in the order of git log', async (t) => {
  const { path, repository } = await createRepository(t)
  const log = new CommitLog(createGitQueue(), { count: 3 })
  const straight = importCommits(path, 7)
  const { pages, all } = await readAll(log, repository, straight.at(-1) ?? '')
  t.same(all, straight.toReversed())
  t.same(
    pages.map(({ length }) => length),
    [3, 3, 1],
  )
  t.same((await readAll(log, repository, straight[2] ?? '')).pages.length, 1, 'no empty page at the end')

  // Branches that are merged after a while, several at a time, one of them with a root of its own.
  let script = ''
  let mark = 0
  const heads: number[] = []
  const commit = (branch: string, parents: number[]) => {
    mark += 1
    const [from, ...merged] = parents.map((parent) => `:${parent}`)
    const origin = from === undefined ? '' : `from ${from}\n`
    const merges = merged.map((parent) => `merge ${parent}\n`).join('')
    script += `${from === undefined ? `reset refs/work/${branch}\n\n` : ''}commit refs/work/${branch}\nmark :${mark}\n`
    script += `committer T <t@example.org> ${1_700_000_000 + mark} +0000\ndata 1\n.\n${origin}${merges}\n`
    return mark
  }
  let main = commit('main', [])
  for (let round = 0; round < 40; round++) {
    if (round % 3 === 0) heads.push(commit(`b${round}`, round === 18 ? [] : [main]))
    for (const [index, head] of heads.entries())
      if ((round + index) % 2 === 0) heads[index] = commit(`c${round}-${index}`, [head])
    main = commit('main', round % 7 === 6 ? [main, ...heads.splice(0, 2)] : [main])
  }
  git(path, 'symbolic-ref', 'HEAD', 'refs/work/main')
  gitImport(path, script)
  const expected = git(path, 'log', '--format=%H', 'HEAD').split('\n')
  t.ok(expected.length > 60)
  for (const count of [1, 4, 30]) {
    const paged = await readAll(new CommitLog(createGitQueue(), { count }), repository, expected[0] ?? '')
    t.same(paged.all, expected, `${count} per page`)
  }
})

function gitImport(path: string, script: string): void {
  const file = join(path, 'script')
  writeFileSync(file, script)
  git(path, '-c', `alias.load=!git fast-import --quiet < ${file}`, 'load')
}

t.test('lists wait for no search for the branches that contain a commit', async (t) => {
  const { path, repository } = await createRepository(t)
  const [sha = ''] = importCommits(path, 1)
  git(path, 'update-ref', 'refs/heads/main', sha)
  const refs = new RefLists(createGitQueue())
  const list = await refs.list(repository, CLIENT)
  replaceGit(t, 'case "$*" in *--contains*) exec sleep 60;; esac; exec "$git" "$@"')
  const gone = new AbortController()
  const searches = Array.from({ length: 4 }, (_, index) =>
    refs.containing(repository, list, sha.replace(/^./, String(index)), {
      address: `192.0.2.${index}`,
      signal: gone.signal,
    }),
  )
  const ended = Promise.allSettled(searches)
  git(path, 'update-ref', 'refs/heads/topic', sha)
  const soon = { ...CLIENT, signal: AbortSignal.timeout(30_000) }
  t.equal((await refs.list(repository, soon)).branches.length, 2)
  gone.abort()
  await ended
})
