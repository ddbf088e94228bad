import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openRepository } from '../../../src/git/opened-repository.ts'
import { readSymbolicRefs } from '../../../src/git/refs/symbolic-refs.ts'
import { readRefList } from '../../../src/git/transfer.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { openTestStore, sqlite } from '../../helpers/databases.ts'
import { listEvents } from '../../helpers/events.ts'
import { createCommits, git, gitWith, replaceGit } from '../../helpers/git.ts'
import { addReport, addRepository, addToken } from '../../helpers/records.ts'
import { beginPush, startRecorder } from './begin-push.ts'

t.test('a force push is refused by the rule of any name of its branch', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const user = await asAdministrator(store).users.create('ann')
  const { id: tokenId } = await addToken(store, user.id)
  const repository = await addRepository(store, 'owner/demo', { commits: 0 })
  const { id: repositoryId, path } = repository
  const [old = ''] = createCommits(path, 1, 'main')
  const [tip = ''] = createCommits(path, 1, 'unrelated')
  git(path, 'symbolic-ref', 'refs/heads/trunk', 'refs/heads/main')
  const rule = { required: ['ci'], bypass: [user] }
  await asAdministrator(store).rules.set(repository, { ...rule, refPattern: 'main' })
  await asAdministrator(store).rules.set(repository, { ...rule, refPattern: 'trunk', bypass: [] })
  await addReport({ store, repositoryId, sha: tip }, 'ci')

  const recorder = startRecorder(t, store)
  t.teardown(() => recorder.close())
  const decideOn = async (ref: string) => {
    const updates = [{ ref, old, new: tip }]
    const push = await beginPush(t, store, recorder, repository, updates, null, tokenId)
    const { signal } = new AbortController()
    const refusals = [...(await push.decide({ updates, atomic: false, signal }))]
    await push.end()
    return refusals
  }
  const { recordBypasses } = store.rules
  let recordings = 0
  store.rules.recordBypasses = (...given) => {
    recordings++
    return recordBypasses(...given)
  }
  const bypasses = async () => (await listEvents(store)).filter(({ action }) => action === 'rule.bypassed')
  for (const ref of ['refs/heads/main', 'refs/heads/trunk'])
    t.match(
      await decideOn(ref),
      [[ref, { reason: /by force/ }]],
      `${ref}: ann may bypass only the rule of main`,
    )
  t.same(await bypasses(), [], 'nothing was bypassed')
  t.equal(recordings, 0, 'so nothing is written')
  await asAdministrator(store).rules.set(repository, { ...rule, refPattern: 'trunk' })
  t.same(await decideOn('refs/heads/main'), [])
  t.match(
    (await bypasses()).map(({ details }) => details),
    [{ ref: 'refs/heads/main', reason: /by force/ }],
    'one update, whatever its names are',
  )
})

t.test('a chain of symbolic refs leads to its last one, which need not exist', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo', { commits: 0 })
  // In both orders, because the folder may be read in either.
  for (const [chain, depths] of [
    ['up', [1, 2, 3, 4]],
    ['down', [4, 3, 2, 1]],
  ] as const)
    for (const depth of depths)
      git(repository.path, 'symbolic-ref', `refs/heads/${chain}${depth}`, `refs/heads/${chain}${depth + 1}`)
  const symbolicRefs = async () => readSymbolicRefs(await openRepository(repository), {})
  const refs = await symbolicRefs()
  t.equal(refs.size, 8)
  for (const [ref, target] of refs) t.equal(target, ref.replace(/\d$/, '5'), ref)

  const [tip = ''] = createCommits(repository.path, 1, 'new')
  const others = Array.from({ length: 100 }, (_, index) => `create refs/heads/other-${index} ${tip}\n`)
  gitWith(repository.path, others.join(''), 'update-ref', '--stdin')
  t.same(await symbolicRefs(), refs, 'git lists many refs')
  git(repository.path, 'pack-refs', '--all')
  t.same(await symbolicRefs(), refs, 'symbolic refs are not packed')

  git(repository.path, 'symbolic-ref', 'refs/heads/up0', 'refs/heads/up1')
  const push = (ref: string) => git(repository.path, 'push', '.', `${tip}:${ref}`)
  t.throws(() => push('refs/heads/up0'), /broken symref/, 'git follows no longer chain')
  push('refs/heads/up1')
  t.equal(git(repository.path, 'rev-parse', 'refs/heads/up5'), tip)
})

t.test('what leads to HEAD, or lies behind a link to a folder, leads to a branch', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo', { commits: 0 })
  const { path } = repository
  const readTargets = async () => readSymbolicRefs(await openRepository(repository), {})
  git(path, 'symbolic-ref', 'refs/heads/now', 'HEAD')
  const now = new Map([['refs/heads/now', 'refs/heads/main']])
  t.same(await readTargets(), now, 'a push to it creates that branch')
  const [tip = ''] = createCommits(path, 1, 'main')
  t.same(await readTargets(), now)
  const { symbolic } = await readRefList(await openRepository(repository))
  t.ok(symbolic.includes('refs/heads/now refs/heads/main'), 'so do backups and checks name it')

  git(path, 'symbolic-ref', '--delete', 'refs/heads/now')
  git(path, 'symbolic-ref', 'refs/elsewhere/trunk', 'refs/heads/main')
  symlinkSync('../elsewhere', join(path, 'refs/heads/linked'))
  t.equal((await readTargets()).get('refs/heads/linked/trunk'), 'refs/heads/main')
  const [next = ''] = createCommits(path, 1, 'next')
  git(path, 'push', '--force', '.', `${next}:refs/heads/linked/trunk`)
  t.not(next, tip)
  t.equal(git(path, 'rev-parse', 'refs/heads/main'), next, 'git moves that branch')
})

t.test('symbolic refs are read from their files, unless these cannot tell all', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'owner/demo', { commits: 1 })
  const { path } = repository
  git(path, 'symbolic-ref', 'refs/heads/trunk', 'refs/heads/main')
  const opened = await openRepository(repository)
  const trunk = ['refs/heads/trunk', 'refs/heads/main']
  const notUtf8 = Buffer.from(join(path, 'refs/heads/\xff'), 'latin1')
  writeFileSync(notUtf8, 'ref: refs/heads/main\n')
  t.same([...(await readSymbolicRefs(opened, {}))].sort(), [trunk, ['refs/heads/\xff', 'refs/heads/main']])
  rmSync(notUtf8)
  replaceGit(t, 'exit 1')
  t.same([...(await readSymbolicRefs(opened, {}))], [trunk], 'without git')
  mkdirSync(join(path, 'reftable'))
  await t.rejects(readSymbolicRefs(opened, {}), { name: 'GitFailed' }, 'only git reads a reftable')
})
