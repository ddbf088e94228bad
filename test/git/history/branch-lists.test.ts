import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { BranchLists } from '../../../src/git/history/branch-lists.ts'
import { createGitQueue } from '../../../src/git/history/cached-reads.ts'
import { copyBareRepository, git, gitWith, importCommits, replaceGit } from '../../helpers/git.ts'
import { temporaryFolder } from '../sample-repository.ts'

const CLIENT = { address: '192.0.2.1' }

async function createRepository(t: Test) {
  const path = join(temporaryFolder(t), 'r.git')
  await copyBareRepository(path, 'sha1')
  return { path, ownerTrust: 'trusted' as const }
}

t.test('branches are listed by code points, with what cannot be named', async (t) => {
  const repository = await createRepository(t)
  const { path } = repository
  const [sha = '', other = ''] = importCommits(path, 2)
  const lists = new BranchLists(createGitQueue())
  t.same(await lists.list(repository, CLIENT), { tips: [], unnamed: 0, more: false }, 'an empty repository')
  t.equal(await lists.tipOf(repository, 'main', CLIENT), null)

  // U+FF5E comes before U+1F600, whose first half in UTF-16 is smaller.
  const names = ['Z', 'a', 'a/b', 'a-b', 'é', '～', '😀', 'x'.repeat(240)].filter((name) => name !== 'a')
  for (const name of names) git(path, 'update-ref', `refs/heads/${name}`, sha)
  gitWith(path, Buffer.from(`create refs/heads/caf\xe9 ${sha}\n`, 'latin1'), 'update-ref', '--stdin')
  const long = `${'y'.repeat(200)}/${'y'.repeat(60)}`
  git(path, 'update-ref', `refs/heads/${long}`, sha)
  git(path, 'update-ref', 'refs/tags/v1', sha)
  git(path, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/Z')
  const all = [...names, 'alias'].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  const expected = { tips: all.map((name) => ({ name, sha })), unnamed: 2, more: false }
  t.same(await lists.list(repository, CLIENT), expected)
  git(path, 'pack-refs', '--all')
  t.same(await lists.list(repository, CLIENT), expected, 'packed')
  const few = new BranchLists(createGitQueue(), { count: 3 })
  t.match(await few.list(repository, CLIENT), { tips: { length: 3 }, more: true })

  for (const name of [...names, 'alias']) t.equal(await lists.tipOf(repository, name, CLIENT), sha, name)
  git(path, 'update-ref', 'refs/heads/Z', other)
  t.equal(await lists.tipOf(repository, 'Z', CLIENT), other, 'a push takes effect at once')
  t.equal(await lists.tipOf(repository, 'alias', CLIENT), other)
  for (const name of [
    'v1',
    'a',
    'a/',
    'a*',
    '--all',
    '../HEAD',
    'Z~0',
    'Z^{commit}',
    '',
    '@',
    'z'.repeat(3_000),
  ])
    t.equal(await lists.tipOf(repository, name, CLIENT), null, name.slice(0, 10))
})

t.test('refs that did not change start no process', async (t) => {
  const repository = await createRepository(t)
  const [sha = ''] = importCommits(repository.path, 1)
  git(repository.path, 'update-ref', 'refs/heads/main', sha)
  // For two seconds after a change, the next one could have the same time.
  await setTimeout(2_100)
  const lists = new BranchLists(createGitQueue())
  const listed = await lists.list(repository, CLIENT)
  replaceGit(t, 'exit 1')
  t.equal(await lists.list(repository, CLIENT), listed)
  t.equal(await lists.tipOf(repository, 'main', CLIENT), sha)
  writeFileSync(join(repository.path, 'refs/heads/new'), `${sha}\n`)
  await t.rejects(lists.list(repository, CLIENT), { name: 'RepositoryUnavailable' })
  t.equal(await lists.tipOf(repository, 'new', CLIENT), sha)
})
