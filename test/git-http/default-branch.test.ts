import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openRepository } from '../../src/git/opened-repository.ts'
import { setFollowing } from '../../src/git/refs/default-branch.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import { listEvents } from '../helpers/events.ts'
import { importCommits } from '../helpers/git.ts'
import { openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, commit, createCheckout, git, tryGit, workFolder } from './client.ts'

const server = await startServer(t)
const token = await server.createToken('owner')
const options = { authorization: basic(token, '') }

async function setUp(t: Test, name: string) {
  const { path } = await server.createRepository(`owner/${name}`, { commits: 0 })
  const url = `${server.url}/owner/${name}.git`
  const checkout = await createCheckout(t, url)
  return {
    path,
    url,
    checkout,
    head: () => readFileSync(join(path, 'HEAD'), 'utf8').trim(),
    push: (...refs: string[]) => tryGit(checkout, ['push', '--quiet', 'origin', ...refs], options),
    cli: (branch: string) =>
      runCli(['repo', 'default-branch', `owner/${name}`, branch], { DATA_DIR: server.dataDir }),
  }
}

t.test('HEAD follows the first branch that is pushed, and only that', async (t) => {
  const { path, url, head, push } = await setUp(t, 'first')
  t.equal((await push('HEAD:refs/tags/v1')).code, 0)
  t.equal(head(), 'ref: refs/heads/main', 'a tag is no branch')
  t.equal((await push('HEAD:refs/heads/release/1')).code, 0)
  t.equal(head(), 'ref: refs/heads/release/1')
  t.equal((await push('HEAD:refs/heads/main', 'HEAD:refs/heads/master')).code, 0)
  t.equal(head(), 'ref: refs/heads/release/1')
  await git(path, ['pack-refs', '--all'])
  t.equal((await push('HEAD:refs/heads/other')).code, 0)
  t.equal(head(), 'ref: refs/heads/release/1', 'also when the branch is packed')

  const folder = workFolder(t)
  const cloned = await tryGit(folder, ['clone', '--quiet', url, 'clone'])
  t.equal(cloned.stderr, '', 'a clone warns of nothing')
  t.equal(await git(join(folder, 'clone'), ['branch', '--show-current']), 'release/1')
  t.match((await openPageClient(server.url).get('/owner/first')).body, /Commits of <bdi>release\/1</)
  const events = (await listEvents(server.store)).filter(({ object }) => object === 'owner/first')
  t.match(
    events.slice(1).map(({ action, details }) => (action === 'push' ? action : details)),
    ['push', 'push', { from: 'main', to: 'release/1' }, 'push', 'push'],
    'an event says so, once',
  )
})

t.test('a push to the default branch waits while a setting of HEAD is recorded', async (t) => {
  const { path, push, checkout } = await setUp(t, 'locked')
  t.equal((await push('HEAD:main')).code, 0)
  const [recording, recorded] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const set = setFollowing(await openRepository({ path, ownerTrust: 'trusted' }), true, () => {
    recording.resolve()
    return recorded.promise
  })
  await recording.promise
  await commit(checkout)
  const pushed = push('HEAD:main')
  // git has it while it waits for that of HEAD.
  await until(() => existsSync(join(path, 'refs/heads/main.lock')))
  await setTimeout(500)
  recorded.resolve()
  const { code, stderr } = await pushed
  t.equal(code, 0, stderr)
  await set
})

t.test('HEAD moves with an event, also beside a push that updates nothing', async (t) => {
  const { head, push } = await setUp(t, 'late')
  const repository = await server.store.repositories.get('owner', 'late')
  const { rules } = asAdministrator(server.store)
  await rules.set(repository, { refPattern: 'main', required: ['ci'], bypass: [] })
  t.equal((await push('HEAD:refs/heads/topic')).code, 0)
  t.equal(head(), 'ref: refs/heads/main', 'a rule keeps it there')
  await rules.remove(repository, 'main')
  t.not((await push('HEAD:refs/heads/topic/x')).code, 0)
  t.equal(head(), 'ref: refs/heads/topic')
  const events = (await listEvents(server.store)).filter(({ object }) => object === 'owner/late')
  t.match(
    events.slice(-2).map(({ action, user, details }) => ({ action, user, details })),
    [
      { action: 'rule.removed' },
      { action: 'repository.default-branch', user: 'owner', details: { from: 'main', to: 'topic' } },
    ],
  )
})

t.test('of several branches, main and master come first', async (t) => {
  const { head, push } = await setUp(t, 'several')
  t.equal((await push('HEAD:refs/heads/a', 'HEAD:refs/heads/master', 'HEAD:refs/heads/z')).code, 0)
  t.equal(head(), 'ref: refs/heads/master')
})

t.test('of pushes at the same time one is followed', async (t) => {
  const { head, push } = await setUp(t, 'race')
  const branches = ['a', 'b', 'c', 'd']
  const pushes = await Promise.all(branches.map((name) => push(`HEAD:refs/heads/${name}`)))
  t.same(
    pushes.map(({ code }) => code),
    [0, 0, 0, 0],
  )
  t.match(head(), /^ref: refs\/heads\/[abcd]$/)
})

t.test('an administrator sets the default branch', async (t) => {
  const { path, head, push, cli } = await setUp(t, 'chosen')
  t.match(await cli('trunk'), { code: 0, stdout: '' })
  t.equal(head(), 'ref: refs/heads/trunk')
  t.equal((await push('HEAD:refs/heads/feature')).code, 0)
  t.equal(head(), 'ref: refs/heads/trunk', 'HEAD does not follow another branch')
  const page = await openPageClient(server.url).get('/owner/chosen')
  t.match(page.body, /default branch <strong><bdi>trunk<\/bdi><\/strong> does not exist/)
  t.match(page.body, /href="\/owner\/chosen\?ref=feature"/)

  t.match(await cli('none'), {
    code: 1,
    stderr: /owner\/chosen has no branch "none"\. Its newest branches: feature/,
  })
  for (const wrong of ['', '-x', 'a..b', 'HEAD^', 'a b', '@{-1}'])
    t.match(await cli(wrong), { code: 2 }, wrong)
  t.match(await cli('feature'), { code: 0 })
  t.equal(head(), 'ref: refs/heads/feature')
  writeFileSync(join(path, 'HEAD.lock'), '')
  t.match(await cli('feature'), {
    code: 1,
    stderr: /^error: another process is changing HEAD \(.*HEAD\.lock exists\)\n$/,
  })
})

t.test('HEAD of an imported repository belongs to its owner', async (t) => {
  const folder = workFolder(t)
  await git(folder, ['init', '--quiet', '--bare', '--initial-branch=main', 'r.git'])
  const path = join(folder, 'r.git')
  const imported = {
    owner: 'owner',
    name: 'imported',
    visibility: 'public',
    objectFormat: 'sha1',
    path,
  } as const
  await asAdministrator(server.store).repositories.create(imported)
  const checkout = await createCheckout(t, `${server.url}/owner/imported.git`)
  t.equal((await tryGit(checkout, ['push', '--quiet', 'origin', 'HEAD:refs/heads/master'], options)).code, 0)
  t.equal(await git(path, ['symbolic-ref', 'HEAD']), 'refs/heads/main')
  const set = (...options: string[]) =>
    runCli(['repo', 'default-branch', 'owner/imported', ...options], { DATA_DIR: server.dataDir })
  t.match(await set('master', '--follow'), { code: 1, stderr: /owner\/imported was imported: its HEAD / })
  t.equal(await git(path, ['symbolic-ref', 'HEAD']), 'refs/heads/main', 'nothing was changed')
  t.match(await set('master'), { code: 0 })
  t.equal(await git(path, ['symbolic-ref', 'HEAD']), 'refs/heads/master')

  await git(path, ['config', 'commitstatus.followpushes', 'true'])
  const renaming = ['HEAD:refs/heads/main', ':refs/heads/master']
  t.not((await tryGit(checkout, ['push', '--quiet', 'origin', ...renaming], options)).code, 0)
  t.equal(await git(path, ['symbolic-ref', 'HEAD']), 'refs/heads/master', 'it does not follow pushes')

  const [sha = ''] = importCommits(path, 1)
  await git(path, ['update-ref', 'refs/heads/next', sha])
  t.match(await set('next'), { code: 0 })
  t.equal(await git(path, ['rev-parse', 'HEAD']), sha)

  chmodSync(join(path, 'config'), 0o664)
  if (process.getuid?.() === 0) execFileSync('chown', ['-R', 'nobody', path])
  t.match(await set('master'), { code: 1, stderr: /other accounts can write .*\/config/ })
  t.equal(readFileSync(join(path, 'HEAD'), 'utf8').trim(), 'ref: refs/heads/next', 'git was not run')
  const changes = (await listEvents(server.store)).filter(
    ({ action, object }) => action === 'repository.default-branch' && object === 'owner/imported',
  )
  t.match(
    changes.map(({ details }) => details),
    [
      { from: 'main', to: 'master' },
      { from: 'master', to: 'next' },
    ],
    'each change is an event',
  )
})
