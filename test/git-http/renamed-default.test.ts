import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openRepository } from '../../src/git/opened-repository.ts'
import { setDefaultBranch, setFollowing } from '../../src/git/refs/default-branch.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import { databases, openTestStore, sqlite } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { startInstance } from '../helpers/instance.ts'
import { addRepository } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, createCheckout, git, tryGit } from './client.ts'
import { beginPush, report, startRecorder } from './push/begin-push.ts'

const server = await startServer(t, { database: sqlite })
const token = await server.createToken('owner')
const options = { authorization: basic(token, '') }
const cli = (...args: string[]) => runCli(['repo', 'default-branch', ...args], { DATA_DIR: server.dataDir })
t.setTimeout(240_000)

/** A repository with a mirror of an origin whose only branch is `main`. */
async function setUp(t: Test, name: string) {
  const { path } = await server.createRepository(`owner/${name}`, { commits: 0 })
  const origin = await createCheckout(t, `${server.url}/owner/${name}.git`)
  await git(origin, ['branch', '-M', 'main'])
  const mirror = (url = server.url) =>
    tryGit(origin, ['push', '--mirror', `${url}/owner/${name}.git`], options)
  const commit = () => git(origin, ['commit', '--quiet', '--allow-empty', '--message', 'next'])
  const head = () => readFileSync(join(path, 'HEAD'), 'utf8').trim().replace('ref: refs/heads/', '')
  const branches = async () =>
    (await git(path, ['for-each-ref', '--format=%(refname:short)', 'refs/heads'])).split('\n')
  const moves = async () =>
    (await listEvents(server.store)).filter(
      ({ action, object }) => action === 'repository.default-branch' && object === `owner/${name}`,
    )
  t.equal((await mirror()).code, 0)
  return { path, origin, mirror, commit, head, branches, moves }
}

/** Renames the branch of the origin; some renames bring a commit. */
const renames = [
  ['main', 'trunk', false],
  ['trunk', 'stable', true],
  ['stable', 'dev', false],
] as const

t.test('a mirror is refused the deletion of the default branch, and told what to do', async (t) => {
  const { origin, mirror, commit, head } = await setUp(t, 'plain')
  await git(origin, ['branch', 'side'])
  await mirror()
  await git(origin, ['branch', '-D', 'side'])
  await commit()
  const another = await mirror()
  t.match(another, { code: 0 })
  t.notMatch(another.stderr, /default branch/, 'the default branch moves, and another one is deleted')
  for (const [from, to] of renames) {
    await git(origin, ['branch', '-m', from, to])
    const { code, stderr } = await mirror()
    t.equal(code, 1)
    t.match(stderr, /\(deletion of the current branch prohibited\)/)
    t.match(stderr, /remote: main is the default branch\. An administrator can choose another one:/)
    t.match(stderr, /remote: {3}commit-status-admin repo default-branch owner\/plain BRANCH/)
    t.match(stderr, /remote: {3}commit-status-admin repo default-branch owner\/plain --follow/)
    t.equal(head(), 'main')
  }
})

t.test('HEAD follows a mirror whose default branch is renamed', async (t) => {
  const { origin, mirror, commit, head, branches, moves } = await setUp(t, 'follows')
  t.match(await cli('owner/follows', '--follow'), { code: 0 })
  for (const [from, to, brings] of renames) {
    await git(origin, ['branch', '-m', from, to])
    if (brings) await commit()
    t.match(await mirror(), { code: 0 }, `${from} to ${to}`)
    t.equal(head(), to)
    t.strictSame(await branches(), [to])
  }
  t.match(
    (await moves()).map(({ details }) => details),
    [{ follows: true }, ...renames.map(([from, to]) => ({ from, to }))],
  )

  await git(origin, ['checkout', '--quiet', '--orphan', 'other'])
  await commit()
  await git(origin, ['branch', 'main', 'dev'])
  await git(origin, ['branch', 'copy', 'dev'])
  await commit()
  await mirror()
  await git(origin, ['branch', '-D', 'dev'])
  t.match(await mirror(), { code: 0 })
  t.equal(head(), 'main', 'nothing is created: main')
  await git(origin, ['branch', 'master', 'main'])
  await mirror()
  await git(origin, ['branch', '-D', 'main'])
  t.match(await mirror(), { code: 0 })
  t.equal(head(), 'master', 'or master')
  await git(origin, ['branch', '-D', 'master'])
  t.match(await mirror(), { code: 1, stderr: /deletion of the current branch prohibited/ })
  t.equal(head(), 'master', 'or nowhere')
  await git(origin, ['branch', 'master', 'copy'])

  await git(origin, ['branch', 'a', 'other'])
  await git(origin, ['branch', '-m', 'master', 'z'])
  await git(origin, ['checkout', '--quiet', 'z'])
  await commit()
  t.match(await mirror(), { code: 0 })
  t.equal(head(), 'z', 'not one of another history')
  t.match(await cli('owner/follows', '--no-follow'), { code: 0 })
  await git(origin, ['branch', '-m', 'z', 'y'])
  t.match(await mirror(), { code: 1, stderr: /deletion of the current branch prohibited/ })
  t.match(await cli('owner/follows'), { code: 2, stderr: /give a branch, or --follow/ })
})

t.test('the default branch is not deleted by another name', async (t) => {
  const { path, origin, mirror, head, branches } = await setUp(t, 'aliased')
  await git(path, ['symbolic-ref', 'refs/heads/trunk', 'refs/heads/main'])
  await git(path, ['symbolic-ref', 'refs/aliases/main', 'refs/heads/trunk'])
  const refused = /\(it is another name of main, the default branch, which would be deleted\)/
  const remove = (...refs: string[]) =>
    tryGit(origin, ['push', `${server.url}/owner/aliased.git`, ...refs.map((ref) => `:${ref}`)], options)
  for (const ref of ['refs/heads/trunk', 'refs/aliases/main'])
    t.match(await remove(ref), { code: 1, stderr: refused }, ref)
  t.match(await mirror(), { code: 1, stderr: refused }, 'a mirror deletes what its origin does not have')
  t.strictSame(await branches(), ['main', 'trunk'])
  await git(path, ['symbolic-ref', 'HEAD', 'refs/heads/trunk'])
  t.match(await remove('refs/heads/trunk'), { code: 1, stderr: refused }, 'HEAD leads there by that name')
  await git(path, ['symbolic-ref', 'HEAD', 'refs/heads/main'])

  await git(origin, ['branch', 'side'])
  t.match(await tryGit(origin, ['push', `${server.url}/owner/aliased.git`, 'side'], options), { code: 0 })
  t.match(await remove('side'), { code: 0 }, 'a branch at the same commit')
  await cli('owner/aliased', '--follow')
  await git(origin, ['branch', '-D', 'side'])
  await git(origin, ['branch', '-m', 'main', 'next'])
  t.match(await mirror(), { code: 0 }, 'with its own name')
  t.equal(head(), 'next')
  t.strictSame(await branches(), ['next'])
})

t.test('a branch with rules stays as the gate says', async (t) => {
  const { origin, mirror, head } = await setUp(t, 'ruled')
  await cli('owner/ruled', '--follow')
  const repository = await server.store.repositories.get('owner', 'ruled')
  const owner = await server.store.users.find('owner')
  const set = (bypass: { id: number; name: string }[]) =>
    asAdministrator(server.store).rules.set(repository, { refPattern: 'main', required: ['ci'], bypass })
  await set([])
  await git(origin, ['branch', '-m', 'main', 'trunk'])
  t.match(await mirror(), { code: 1, stderr: /a branch with required checks cannot be deleted/ })
  t.equal(head(), 'main')
  await set(owner ? [owner] : [])
  t.match(
    await mirror(),
    { code: 1, stderr: /deletion of the current branch prohibited/ },
    'nothing is created now',
  )
  await git(origin, ['branch', '-m', 'trunk', 'next'])
  t.match(await mirror(), { code: 0 })
  t.equal(head(), 'next')
})

for (const database of databases)
  t.test(`${database.name}: HEAD and its event follow a push whose end was not recorded`, async (t) => {
    const { store } = await openTestStore(t, database)
    const repository = await addRepository(store, 'owner/demo')
    const { id: repositoryId, path } = repository
    const head = () => readFileSync(join(path, 'HEAD'), 'utf8').trim().replace('ref: refs/heads/', '')
    const events = async () =>
      (await listEvents(store)).flatMap<unknown>(({ action, details }) =>
        action === 'push' ? ['push'] : action === 'repository.default-branch' ? [details] : [],
      )
    const by = {
      kind: 'user',
      user: { id: 1, name: 'ann' },
      token: { id: 'x', name: 'ci' },
      address: '::1',
    } as const
    const pusher = { by, repositoryId, repositoryName: 'owner/demo' }
    const [sha = ''] = repository.commits
    const none = '0'.repeat(40)
    const expected: unknown[] = []
    /** Renames HEAD's branch. @param isMoved whether the server has moved HEAD before it was killed */
    const rename = async (from: string, to: string, isMoved: boolean) => {
      const refs = { from: `refs/heads/${from}`, to: `refs/heads/${to}` }
      const commands = [
        { ref: refs.to, old: none, new: sha },
        { ref: refs.from, old: sha, new: none },
      ]
      await store.pushes.open(pusher, commands, { head: refs.from })
      await git(path, ['update-ref', refs.to, sha])
      await git(path, ['update-ref', '-d', refs.from])
      if (isMoved) await git(path, ['symbolic-ref', 'HEAD', refs.to])
      // Two instances find it.
      await Promise.all([1, 2].map(() => startRecorder(t, store, { overdue: 0 }).close()))
      t.equal(head(), to)
      expected.push('push', { from, to })
      t.strictSame(await events(), expected)
    }
    await rename('main', 'trunk', false)
    await rename('trunk', 'stable', true)

    await store.pushes.open(pusher, [{ ref: 'refs/heads/stable', old: sha, new: none }], {
      head: 'refs/heads/stable',
    })
    await startRecorder(t, store, { overdue: 0 }).close()
    t.equal(head(), 'stable', 'the branch was not deleted')
    t.strictSame(await events(), [...expected, 'push'])
  })

t.test('a branch that an administrator chooses meanwhile is no move by the push', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo')
  const { path } = repository
  const [sha = ''] = repository.commits
  const none = '0'.repeat(40)
  const opened = await openRepository(repository)
  await setFollowing(opened, true, async () => {})
  const commands = [
    { ref: 'refs/heads/trunk', old: none, new: sha },
    { ref: 'refs/heads/main', old: sha, new: none },
  ]
  const recorder = startRecorder(t, store)
  const push = await beginPush(t, store, recorder, repository, commands)
  t.equal(push.mayDeleteHead, true)
  for (const name of ['trunk', 'chosen']) await git(path, ['update-ref', `refs/heads/${name}`, sha])
  await git(path, ['update-ref', '-d', 'refs/heads/main'])
  await setDefaultBranch(opened, 'chosen', false, async () => {})
  report(push, commands)
  await push.end()
  await recorder.close()
  const actions = (await listEvents(store)).map(({ action }) => action)
  t.same([actions.includes('push'), actions.includes('repository.default-branch')], [true, false])
})

t.test('HEAD names a branch after each moment at which the server is killed', async (t) => {
  const start = () => startInstance(t, server.options, { PATH: process.env.PATH ?? '' })
  let instance = await start()
  for (const follows of [true, false]) {
    const name = follows ? 'killed' : 'killed-plain'
    const { path, origin, mirror, head, branches } = await setUp(t, name)
    if (follows) await cli(`owner/${name}`, '--follow')
    const isOpen = async () =>
      (await server.store.pushes.listOpenRefs()).some(({ ref }) => ref.startsWith('refs/heads/'))
    for (const [index, [from, to]] of (follows ? renames : renames.slice(0, 1)).entries()) {
      await git(origin, ['branch', '-m', from, to])
      let isPushed = false
      const pushed = mirror(instance.url).finally(() => {
        isPushed = true
      })
      // It is open for less than a tenth of a second, which a busy machine may sleep through.
      await until(async () => isPushed || (await isOpen()))
      if (index > 0)
        await until(
          async () => (await branches()).includes(to) || (index > 1 && !(await branches()).includes(from)),
        )
      instance.child.kill('SIGKILL')
      await once(instance.child, 'exit')
      await pushed
      // It settles the push, and is the one that the next rename kills.
      instance = await start()
      await until(async () => !(await isOpen()))
      t.ok((await branches()).includes(head()), 'HEAD has moved when the push is settled')
      t.equal((await mirror(instance.url)).code, follows || head() === to ? 0 : 1)
      t.equal(head(), follows ? to : 'main')
      t.equal(await git(path, ['rev-parse', 'HEAD']), await git(origin, ['rev-parse', 'HEAD']))
    }
  }
})
