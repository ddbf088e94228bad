import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { GitTimeout, RepositoryUnavailable } from '../../../src/git/errors.ts'
import { createGitQueue } from '../../../src/git/history/cached-reads.ts'
import { CommitLog } from '../../../src/git/history/log.ts'
import { Revisions } from '../../../src/git/history/revision.ts'
import { CommitLookup } from '../../../src/git/objects/commit-lookup.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import type { QueueClient } from '../../../src/schedule/fair-queue.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { createCommits, git, importCommits, replaceGit } from '../../helpers/git.ts'
import { until } from '../../helpers/until.ts'
import { isRunning } from '../sample-repository.ts'

const CLIENT = { address: '192.0.2.1' }

async function createRepository(t: Test): Promise<string> {
  const path = join(temporaryFolder(t), 'r.git')
  await createBareRepository(path, 'sha1')
  return path
}

/** Adds commits with these messages to a branch and returns their ids, oldest first. */
function commit(path: string, messages: readonly string[], branch = 'main'): string[] {
  const commits = importCommits(path, messages.length, (index, from) => messages[index] || from)
  git(path, 'update-ref', `refs/heads/${branch}`, commits.at(-1) ?? '')
  return commits
}

function linkHead(path: string, ref: string): void {
  rmSync(join(path, 'HEAD'))
  symlinkSync(ref, join(path, 'HEAD'))
}

t.test('the newest commits of the branch that HEAD names come first', async (t) => {
  const path = await createRepository(t)
  const log = new CommitLog(createGitQueue(), { count: 3 })
  t.same(await log.newest({ path, ownerTrust: 'trusted' }, CLIENT), [], 'empty before the first push')
  const commits = createCommits(path, 4)
  createCommits(path, 1, 'other')
  const newest = await log.newest({ path, ownerTrust: 'trusted' }, CLIENT)
  t.same(
    newest.map(({ sha }) => sha),
    commits.slice(1).reverse(),
  )
  t.match(newest[0], {
    author: 'Test',
    subject: /^Commit 3/,
    date: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/,
  })
})

t.test('every change of the commit of HEAD takes effect at once', async (t) => {
  const path = await createRepository(t)
  const log = new CommitLog(createGitQueue())
  const changes: Record<string, () => unknown> = {
    'a first push': () => commit(path, ['']),
    'a push': () => commit(path, ['']),
    'another push': () => commit(path, ['']),
    'refs that are packed': () => git(path, 'pack-refs', '--all'),
    'a push after that': () => commit(path, ['']),
    'refs that are packed again': () => git(path, 'pack-refs', '--all'),
    'another branch': () => commit(path, [''], 'deep/er/branch'),
    'HEAD on the other branch': () => git(path, 'symbolic-ref', 'HEAD', 'refs/heads/deep/er/branch'),
    'a push to that branch': () => commit(path, [''], 'deep/er/branch'),
    'a branch that stands for another': () => git(path, 'symbolic-ref', 'HEAD', 'refs/heads/alias'),
    'the same': () => git(path, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/main'),
    'a push to the branch that it stands for': () => commit(path, ['']),
    'a HEAD without a branch': () =>
      git(path, 'update-ref', '--no-deref', 'HEAD', 'refs/heads/deep/er/branch'),
    'packed branches': () => git(path, 'pack-refs', '--all'),
    'HEAD as a symbolic link': () => linkHead(path, 'refs/heads/main'),
    'HEAD as a link to another packed branch': () => linkHead(path, 'refs/heads/deep/er/branch'),
    'a branch that is not there': () => git(path, 'symbolic-ref', 'HEAD', 'refs/heads/none'),
    'a push to it': () => commit(path, [''], 'none'),
    'HEAD on a branch whose name is not ASCII': () => git(path, 'symbolic-ref', 'HEAD', 'refs/heads/ü'),
    'a first push to it': () => commit(path, [''], 'ü'),
    'another push to it': () => commit(path, [''], 'ü'),
    'HEAD on the one before': () => git(path, 'symbolic-ref', 'HEAD', 'refs/heads/none'),
    'a branch that is deleted': () => git(path, 'update-ref', '-d', 'refs/heads/none'),
  }
  for (const [name, change] of Object.entries(changes)) {
    change()
    const [newest] = await log.newest({ path, ownerTrust: 'trusted' }, CLIENT)
    let expected: string | undefined
    try {
      expected = git(path, 'rev-parse', '--verify', '--quiet', 'HEAD')
    } catch {
      // No commit.
    }
    t.equal(newest?.sha, expected, name)
  }
})

t.test('git runs once for concurrent calls, and a few processes at a time', async (t) => {
  const [path, other] = [await createRepository(t), await createRepository(t)]
  for (const repository of [path, other]) commit(repository, ['one', 'two'])
  const folder = temporaryFolder(t)
  const runs = join(folder, 'runs')
  replaceGit(t, `echo x >> ${runs}; exec "$git" "$@"`)
  const log = new CommitLog(createGitQueue())
  const ask = (client: QueueClient) =>
    Promise.all(
      Array.from({ length: 50 }, () =>
        log.newest({ path, ownerTrust: 'trusted' }, client).then(({ length }) => length),
      ),
    )
  t.same(new Set(await ask(CLIENT)), new Set([2]))
  const count = () => readFileSync(runs, 'utf8').length / 2
  t.ok(count() <= 2, `${count()} processes for one client at a time`)
  const before = count()
  await Promise.all([ask(CLIENT), ask({ address: '192.0.2.2' })])
  t.equal(count(), before, 'no process for a cached list')
  await log.newest({ path: other, ownerTrust: 'trusted' }, CLIENT)
  t.equal(count(), before + 1)
})

t.test('long names and subjects are cut', async (t) => {
  const path = await createRepository(t)
  const texts = {
    'as it is': 'x'.repeat(300),
    'one too many': 'x'.repeat(301),
    long: '&'.repeat(500_000),
    'two bytes': 'é'.repeat(400),
    'three bytes': '\u20ac'.repeat(400),
    'four bytes': '\u{1D41A}'.repeat(300),
    'four bytes, too many': '\u{1D41A}'.repeat(301),
    'one and four bytes': `x${'\u{1D41A}'.repeat(400)}`,
    'without width': `e${'\u0301'.repeat(200_000)}`,
    'several lines': `${'a\n'.repeat(400)}`,
  }
  const commits = commit(path, Object.values(texts))
  const listed = await new CommitLog(createGitQueue()).newest({ path, ownerTrust: 'trusted' }, CLIENT)
  t.same(
    listed.map(({ sha }) => sha),
    commits.reverse(),
  )
  for (const [index, [name, text]] of Object.entries(texts).reverse().entries()) {
    const points = Array.from(text.trim().replaceAll('\n', ' '))
    const expected = points.length <= 300 ? points : [...points.slice(0, 299), '…']
    t.equal(listed[index]?.subject, expected.join(''), name)
  }

  const tree = git(path, 'rev-parse', 'HEAD^{tree}')
  const file = join(temporaryFolder(t), 'commit')
  writeFileSync(
    file,
    `tree ${tree}\nauthor ${'A'.repeat(100_000)} <a@b> 1 +0000\ncommitter C <c@d> 1 +0000\n\ns\n`,
  )
  git(path, 'update-ref', 'refs/heads/main', git(path, 'hash-object', '-t', 'commit', '-w', file))
  const [{ author, subject } = { author: '', subject: '' }] = await new CommitLog(createGitQueue()).newest(
    { path, ownerTrust: 'trusted' },
    CLIENT,
  )
  t.equal(author, `${'A'.repeat(299)}…`)
  t.equal(subject, 's')
})

t.test('the amount of output read from git is bounded', async (t) => {
  const path = await createRepository(t)
  const commits = commit(path, ['old', 'x'.repeat(40_000_000), 'new'])
  const listed = await new CommitLog(createGitQueue()).newest({ path, ownerTrust: 'trusted' }, CLIENT)
  t.same(
    listed.map(({ sha, subject }) => [sha, subject.length]),
    [
      [commits[2], 3],
      [commits[1], 300],
    ],
  )
})

t.test('the first 16 parents of a commit are named', async (t) => {
  const path = await createRepository(t)
  const lookup = new CommitLookup()
  t.teardown(() => lookup.close())
  const revisions = new Revisions(createGitQueue(), lookup)
  const parents = createCommits(path, 17)
  for (const count of [16, 17]) {
    const args = parents.slice(0, count).flatMap((id) => ['-p', id])
    const sha = git(path, 'commit-tree', `${parents[0]}^{tree}`, '-m', 'many', ...args)
    const repository = { id: 1, path, ownerTrust: 'trusted', objectFormat: 'sha1' } as const
    t.match(await revisions.describe(repository, sha, CLIENT), {
      parents: parents.slice(0, 16),
      moreParents: count > 16,
    })
  }
})

t.test('commits with invalid dates and empty fields are listed', async (t) => {
  const folder = temporaryFolder(t)
  const path = await createRepository(t)
  const log = new CommitLog(createGitQueue())
  commit(path, [''])
  const tree = git(path, 'rev-parse', 'HEAD^{tree}')
  for (const author of ['A <a@b>', 'A <a@b> 999999999999 +0000', 'A <a@b> x +0000', '<> 1 +0000']) {
    const file = join(folder, 'commit')
    writeFileSync(file, `tree ${tree}\nauthor ${author}\ncommitter C <c@d> 1 +0000\n`)
    const sha = git(path, 'hash-object', '-t', 'commit', '-w', '--literally', file)
    git(path, 'update-ref', 'refs/heads/main', sha)
    const [commit] = await log.newest({ path, ownerTrust: 'trusted' }, CLIENT)
    t.equal(commit?.sha, sha, author)
    t.equal(commit?.subject, '')
    t.ok(commit?.date === null || !Number.isNaN(Date.parse(commit?.date ?? '')), `${author}: ${commit?.date}`)
  }
})

t.test(
  'a repository that is not there is unavailable, also when its commits were listed before',
  async (t) => {
    const path = await createRepository(t)
    const log = new CommitLog(createGitQueue())
    await t.rejects(
      log.newest({ path: join(path, 'none.git'), ownerTrust: 'trusted' }, CLIENT),
      RepositoryUnavailable,
    )
    commit(path, [''])
    await log.newest({ path, ownerTrust: 'trusted' }, CLIENT)
    renameSync(path, `${path}.gone`)
    await t.rejects(log.newest({ path, ownerTrust: 'trusted' }, CLIENT), RepositoryUnavailable)
    renameSync(`${path}.gone`, path)
    t.equal((await log.newest({ path, ownerTrust: 'trusted' }, CLIENT)).length, 1)
    rmSync(join(path, 'objects'), { recursive: true })
    mkdirSync(join(path, 'objects'))
    await t.rejects(
      new CommitLog(createGitQueue()).newest({ path, ownerTrust: 'trusted' }, CLIENT),
      RepositoryUnavailable,
    )
  },
)

t.test('pipes in place of files do not block', async (t) => {
  const path = await createRepository(t)
  commit(path, [''])
  const log = new CommitLog(createGitQueue(), { timeout: 300 })
  for (const name of ['refs/heads/main', 'packed-refs', 'HEAD']) {
    rmSync(join(path, name), { force: true })
    execFileSync('sh', ['-c', 'mkfifo "$0"', join(path, name)])
    await t.rejects(log.newest({ path, ownerTrust: 'trusted' }, CLIENT), RepositoryUnavailable, name)
  }
})

t.test('git is killed when the caller aborts or when it takes too long', async (t) => {
  const path = await createRepository(t)
  commit(path, [''])
  const folder = temporaryFolder(t)
  const pid = join(folder, 'pid')
  replaceGit(t, `echo $$ >> ${pid}; [ -e ${folder}/slow ] && exec sleep 60; exec "$git" "$@"`)
  const started = () => (existsSync(pid) ? readFileSync(pid, 'utf8').trim().split('\n').map(Number) : [])
  writeFileSync(join(folder, 'slow'), '')

  const log = new CommitLog(createGitQueue(), { timeout: 5_000 })
  const gone = new AbortController()
  const asked = log.newest({ path, ownerTrust: 'trusted' }, { ...CLIENT, signal: gone.signal })
  await until(() => started().length === 1)
  gone.abort()
  await t.rejects(asked, { name: 'AbortError' })
  await until(() => !isRunning(started()[0] ?? 0))
  await t.rejects(log.newest({ path, ownerTrust: 'trusted' }, { ...CLIENT, signal: gone.signal }), {
    name: 'AbortError',
  })

  const answers = await Promise.allSettled(
    ['a', 'a', 'b', 'c'].map((address) => log.newest({ path, ownerTrust: 'trusted' }, { address })),
  )
  for (const answer of answers) t.ok(answer.status === 'rejected' && answer.reason instanceof GitTimeout)
  const count = started().length
  for (const process of started()) await until(() => !isRunning(process))
  await t.rejects(log.newest({ path, ownerTrust: 'trusted' }, { address: 'd' }), { message: /in time/ })
  t.equal(started().length, count, 'the error is cached')
  rmSync(join(folder, 'slow'))
  commit(path, [''])
  t.equal(
    (await log.newest({ path, ownerTrust: 'trusted' }, { address: 'd' })).length,
    1,
    'read again after a push',
  )
})
