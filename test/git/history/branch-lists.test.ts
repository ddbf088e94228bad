import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
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
  // For 50 ms after a change, the next one could have the same time.
  await setTimeout(100)
  const lists = new BranchLists(createGitQueue(), {}, 'own')
  const listed = await lists.list(repository, CLIENT)
  replaceGit(t, 'exit 1')
  t.equal(await lists.list(repository, CLIENT), listed)
  t.equal(await lists.tipOf(repository, 'main', CLIENT), sha)
  writeFileSync(join(repository.path, 'refs/heads/new'), `${sha}\n`)
  const tips = ['main', 'new'].map((name) => ({ name, sha }))
  t.same(await lists.list(repository, CLIENT), { tips, unnamed: 0, more: false }, 'nor does a push')
  t.equal(await lists.tipOf(repository, 'new', CLIENT), sha)
  mkdirSync(join(repository.path, 'reftable'))
  writeFileSync(join(repository.path, 'reftable/tables.list'), '')
  await t.rejects(lists.list(repository, CLIENT), { name: 'RepositoryUnavailable' })
})

t.test('branches are those that git lists, wherever they are and whatever has moved', async (t) => {
  const repository = await createRepository(t)
  const { path } = repository
  const commits = importCommits(path, 8)
  const lists = new BranchLists(createGitQueue())
  const fewLists = new BranchLists(createGitQueue(), { count: 5 })
  // Both look up branches: the one in files each time, the other one where these have changed.
  const both = [lists, new BranchLists(createGitQueue(), {}, 'own')]
  git(path, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/b-0')
  const names = Array.from({ length: 12 }, (_, index) => `b${index % 3 ? '/' : '-'}${index}`)
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(11), fc.option(fc.nat(7)), fc.nat(3)), { minLength: 1, maxLength: 6 }),
      async (changes) => {
        for (const [name, commit, pack] of changes) {
          const ref = `refs/heads/${names[name]}`
          git(path, 'update-ref', ...(commit === null ? ['-d', ref] : [ref, commits[commit] ?? '']))
          if (pack === 0) git(path, 'pack-refs', '--all')
          if (pack === 1) git(path, 'symbolic-ref', 'refs/heads/alias', ref)
          const lines = git(path, 'for-each-ref', '--format=%(refname:lstrip=2) %(objectname)', 'refs/heads')
          const tips = lines
            .split('\n')
            .filter(Boolean)
            .map((line) => {
              const [name = '', sha = ''] = line.split(' ')
              return { name, sha }
            })
          t.same(await lists.list(repository, CLIENT), { tips, unnamed: 0, more: false })
          const few = { tips: tips.slice(0, 5), unnamed: 0, more: tips.length > 5 }
          t.same(await fewLists.list(repository, CLIENT), few)
          for (const each of both)
            for (const name of [...names, 'alias']) {
              const sha = tips.find((tip) => tip.name === name)?.sha ?? null
              t.equal(await each.tipOf(repository, name, CLIENT), sha, name)
            }
        }
      },
    ),
    { numRuns: 12 },
  )
})

t.test('a damaged file of a branch hides where the branch was packed', async (t) => {
  const repository = await createRepository(t)
  const { path } = repository
  const [sha = ''] = importCommits(path, 1)
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) git(path, 'update-ref', `refs/heads/${name}`, sha)
  git(path, 'pack-refs', '--all')
  const lists = new BranchLists(createGitQueue())
  const fewLists = new BranchLists(createGitQueue(), { count: 2 })
  t.match(await fewLists.list(repository, CLIENT), { tips: [{ name: 'a' }, { name: 'b' }], more: true })

  writeFileSync(join(path, 'refs/heads/a'), '')
  git(path, 'symbolic-ref', 'refs/heads/c', 'refs/heads/none')
  git(path, 'symbolic-ref', 'refs/heads/d', 'refs/heads/f')
  const listed = git(path, 'for-each-ref', '--format=%(refname:lstrip=2)', 'refs/heads')
  t.equal(listed.trim(), 'b\nd\ne\nf')
  const tips = ['b', 'd', 'e', 'f'].map((name) => ({ name, sha }))
  t.same(await lists.list(repository, CLIENT), { tips, unnamed: 0, more: false })
  t.same(await fewLists.list(repository, CLIENT), { tips: tips.slice(0, 2), unnamed: 0, more: true })
  for (const name of ['a', 'c']) t.equal(await lists.tipOf(repository, name, CLIENT), null, name)
})

t.test('git lists what its files do not tell in order', async (t) => {
  const repository = await createRepository(t)
  const { path } = repository
  const [sha = ''] = importCommits(path, 1)
  const lists = new BranchLists(createGitQueue())
  git(path, 'update-ref', 'refs/heads/a', sha)
  git(path, 'pack-refs', '--all')
  const file = join(path, 'packed-refs')
  git(path, 'update-ref', 'refs/tags/t', sha)
  writeFileSync(
    file,
    `${sha} refs/tags/t\n${sha} refs/heads/c\n${readFileSync(file, 'utf8').replace(/^#.*\n/, '')}`,
  )
  t.same(
    (await lists.list(repository, CLIENT)).tips,
    [
      { name: 'a', sha },
      { name: 'c', sha },
    ],
    'not sorted',
  )
  const lines = Array.from({ length: 300 }, (_, index) => `create refs/heads/n${1000 + index} ${sha}\n`)
  gitWith(path, lines.join(''), 'update-ref', '--stdin')
  t.equal((await lists.list(repository, CLIENT)).tips.length, 302, 'many files')
})
