import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { recentCommits } from '../../src/git/log.ts'
import { createBareRepository, RepositoryUnavailable } from '../../src/git/repository.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { git, pushCommits } from '../helpers/git.ts'

t.test('the newest commits of the branch that HEAD names come first', async (t) => {
  const path = join(temporaryFolder(t), 'r.git')
  await createBareRepository(path, 'sha1')
  t.same(await recentCommits({ path }, 5), [], 'none where nothing was pushed')
  const commits = pushCommits(path, 4)
  pushCommits(path, 1, 'other')
  const log = await recentCommits({ path }, 3)
  t.same(
    log.map(({ sha }) => sha),
    commits.slice(1).reverse(),
  )
  t.match(log[0], { author: 'Test', subject: /^Commit 3/, date: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/ })
})

t.test('a commit may tell a date that there is not, and nothing else', async (t) => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'r.git')
  await createBareRepository(path, 'sha1')
  pushCommits(path, 1)
  const tree = git(path, 'rev-parse', 'HEAD^{tree}')
  for (const author of ['A <a@b>', 'A <a@b> 999999999999 +0000', 'A <a@b> x +0000', '<> 1 +0000']) {
    const file = join(folder, 'commit')
    writeFileSync(file, `tree ${tree}\nauthor ${author}\ncommitter C <c@d> 1 +0000\n`)
    const sha = git(path, 'hash-object', '-t', 'commit', '-w', '--literally', file)
    git(path, 'update-ref', 'refs/heads/main', sha)
    const [commit] = await recentCommits({ path }, 1)
    t.equal(commit?.sha, sha, author)
    t.equal(commit?.subject, '')
    t.ok(commit?.date === null || !Number.isNaN(Date.parse(commit?.date ?? '')), `${author}: ${commit?.date}`)
  }
})

t.test('a repository that is not there is unavailable', async (t) => {
  await t.rejects(recentCommits({ path: join(temporaryFolder(t), 'none.git') }, 1), RepositoryUnavailable)
})
