import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { openRepository } from '../../../src/git/opened-repository.ts'
import { findUnchecked } from '../../../src/repositories/unchecked.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { runCli } from '../../helpers/cli.ts'
import { databases, openTestStore } from '../../helpers/databases.ts'
import { listPushes } from '../../helpers/events.ts'
import { replaceGit } from '../../helpers/git.ts'
import { addRepository } from '../../helpers/records.ts'
import { startServer } from '../../helpers/server.ts'
import { until } from '../../helpers/until.ts'
import { basic, commit, createCheckout, git, tryGit } from '../client.ts'
import { createPush, report, startRecorder } from './begin-push.ts'

const NONE = '0'.repeat(40)

for (const database of databases) {
  t.test(
    `${database.name}: a push under way when the first rule is set says that it was not checked`,
    async (t) => {
      const { store } = await openTestStore(t, database)
      const repository = await addRepository(store, 'owner/demo', { commits: 1 })
      const [sha = ''] = repository.commits
      const recorder = startRecorder(t, store)
      const commands = ['master', 'topic'].map((name) => ({ ref: `refs/heads/${name}`, old: NONE, new: sha }))
      const opened = await openRepository(repository)
      const { signal } = new AbortController()
      const set = async (refPattern: string) => {
        const rule = { refPattern, required: ['ci'], bypass: [] }
        await asAdministrator(store).rules.set(repository, rule)
        return findUnchecked(store, repository, refPattern)
      }
      const push = createPush(t, store, recorder, repository, commands)
      t.equal(await push.begin(opened, signal), null)
      t.equal(push.isGated, false)
      t.same(await set('ma*'), [{ ref: 'refs/heads/master', user: 'ann' }], 'who sets the rule learns it')
      const next = createPush(t, store, recorder, repository, commands)
      t.equal(await next.begin(opened, signal), null)
      t.equal(next.isGated, true)
      t.same(
        await set('topic'),
        [{ ref: 'refs/heads/topic', user: 'ann' }],
        'nor does a second rule decide about it; pushes that begin from then on are checked',
      )
      for (const one of [push, next]) {
        report(one, commands)
        await one.end()
      }
      await recorder.close()
      const details = (await listPushes(store)).map(({ details }) => details)
      t.match(details, [{ unchecked: ['ma*', 'topic'] }, { updates: commands }])
      t.notOk(details[1]?.unchecked)
    },
  )

  t.test(`${database.name}: a rule that is set while a push begins is seen by one of the two`, async (t) => {
    const { store } = await openTestStore(t, database)
    for (let round = 0; round < 20; round++) {
      const repository = await addRepository(store, `owner/demo${round}`, { commits: 1 })
      const [sha = ''] = repository.commits
      const recorder = startRecorder(t, store)
      const push = createPush(t, store, recorder, repository, [
        { ref: 'refs/heads/new', old: NONE, new: sha },
      ])
      const rule = { refPattern: 'new', required: ['ci'], bypass: [] }
      const opened = await openRepository(repository)
      const [, named] = await Promise.all([
        push.begin(opened, new AbortController().signal),
        setTimeout(Math.random() * 8).then(async () => {
          await asAdministrator(store).rules.set(repository, rule)
          return findUnchecked(store, repository, 'new')
        }),
      ])
      t.ok(push.isGated || named.length === 1, `round ${round}`)
      await push.end()
      await recorder.close()
    }
  })
}

for (const database of databases)
  t.test(`${database.name}: so does one whose server was killed, or that names a symbolic ref`, async (t) => {
    const { store } = await openTestStore(t, database)
    const repository = await addRepository(store, 'owner/demo', { commits: 2 })
    const [sha = '', next = ''] = repository.commits
    await git(repository.path, ['update-ref', 'refs/heads/main', sha])
    await git(repository.path, ['symbolic-ref', 'refs/heads/alias', 'refs/heads/main'])
    const pusher = {
      by: {
        kind: 'user',
        user: { id: 1, name: 'ann' },
        token: { id: 'x', name: 'ci' },
        address: '192.0.2.1',
      },
      repositoryId: repository.id,
      repositoryName: 'owner/demo',
    } as const
    const update = { ref: 'refs/heads/alias', old: sha, new: next }
    await store.pushes.open(pusher, [update])
    const rule = { refPattern: 'main', required: ['ci'], bypass: [] }
    await asAdministrator(store).rules.set(repository, rule)
    t.same(await findUnchecked(store, repository, 'main'), [{ ref: 'refs/heads/alias', user: 'ann' }])
    t.same(await findUnchecked(store, repository, 'other'), [])
    // Nobody can name what is below it by a path.
    const folder = 'x'.repeat(250)
    const deepen = `for (let depth = 0; depth < 20; depth++) { fs.mkdirSync('${folder}'); process.chdir('${folder}') }`
    execFileSync(process.execPath, ['--eval', deepen], { cwd: join(repository.path, 'refs') })
    const named = [{ ref: 'refs/heads/alias', user: 'ann' }]
    t.same(await findUnchecked(store, repository, 'alias'), named, 'what the name alone tells')
    rmSync(join(repository.path, 'refs', folder), { recursive: true })
    await store.pushes.open(pusher, [{ ...update, ref: 'refs/heads/main' }])
    t.equal((await findUnchecked(store, repository, 'main')).length, 1, 'a push that began later is checked')
    await git(repository.path, ['update-ref', 'refs/heads/main', next])
    await startRecorder(t, store, { overdue: 0 }).close()
    const details = (await listPushes(store)).map(({ details }) => details)
    t.match(details, [{ updates: [update], interrupted: true, unchecked: ['main'] }, { interrupted: true }])
    t.notOk(details[1]?.unchecked)
  })

t.test('the command that sets the first rule names a push that git works on', async (t) => {
  const server = await startServer(t)
  await server.createRepository('owner/demo', { commits: 0 })
  const authorization = basic('x', await server.createToken('owner'))
  const checkout = await createCheckout(t, `${server.url}/owner/demo.git`)
  await commit(checkout)
  const block = join(checkout, 'block')
  writeFileSync(block, '')
  const wait = `while [ -e '${block}' ]; do sleep 0.1; done`
  replaceGit(t, `case "$*" in *info-refs*) ;; *receive-pack*) ${wait};; esac; exec "$git" "$@"`)
  const pushed = tryGit(checkout, ['push', '--quiet', 'origin', 'HEAD:main'], { authorization })
  await until(async () => (await server.store.pushes.listOpenRefs()).length > 0)
  const { code, stderr } = await runCli(['rule', 'set', 'owner/demo', 'main', '--require', 'ci'], {
    DATA_DIR: server.dataDir,
  })
  t.equal(code, 0)
  t.match(
    stderr,
    'main: a push under way is not checked, and its event will say so: "refs/heads/main" by "owner"\n',
  )
  rmSync(block)
  t.match(await pushed, { code: 0 })
  const [event] = await listPushes(server.store)
  t.same(event?.details.unchecked, ['main'])
  await commit(checkout)
  t.match(await tryGit(checkout, ['push', 'origin', 'HEAD:main'], { authorization }), {
    stderr: /ci has not reported/,
  })
  t.equal((await git(checkout, ['ls-remote', 'origin', 'main'])).split('\n').length, 1)
})
