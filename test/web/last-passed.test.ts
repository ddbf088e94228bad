import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { createCommits, git, replaceGit } from '../helpers/git.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

t.test('the page of a branch with rules names the last commit that passed', async (t) => {
  const server = await startServer(t)
  const { store } = server
  const repository = await server.createRepository('acme/rocket', { commits: 40 })
  const [oldest = ''] = repository.commits
  const [before = '', newest = ''] = repository.commits.slice(-2)
  git(repository.path, 'update-ref', 'refs/heads/topic', newest)
  const page = async (query = '') => (await fetch(`${server.url}/acme/rocket${query}`)).text()
  const shown = async (query = '') =>
    /id="last-passed">[\s\S]*?href="\/acme\/rocket\/commits\/([0-9a-f]+)"/.exec(await page(query))?.[1]
  const report = (sha: string, state: 'success' | 'failure') =>
    addReport({ store, repositoryId: repository.id, sha }, 'ci', state)

  await report(oldest, 'success')
  t.equal(await shown(), undefined, 'without a rule')
  await asAdministrator(store).rules.set(repository, { refPattern: 'main', required: ['ci'], bypass: [] })
  t.equal(await shown(), oldest, 'a commit of another page')
  t.match(await page(), /id="last-passed">[\s\S]*?<time /, 'with its age')
  t.equal(await shown('?ref=topic'), undefined, 'another branch')
  await report(newest, 'failure')
  await report(before, 'success')
  t.equal(await shown(), before)
  t.equal(await shown(`?after=${newest}`), undefined, 'only on the first page')
  await report(newest, 'success')
  t.equal(await shown(), undefined, 'the newest commit has passed')

  createCommits(repository.path, 3)
  replaceGit(t, 'case "$*" in *rev-list*) exit 128;; esac; exec "$git" "$@"')
  t.equal((await fetch(`${server.url}/acme/rocket`)).status, 200, 'the page, without this line')
})
