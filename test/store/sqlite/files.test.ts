import { once } from 'node:events'
import { copyFileSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { issueToken } from '../../../src/auth/issue-token.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { openTestStore, sqlite } from '../../helpers/databases.ts'
import { type Instance, startInstance } from '../../helpers/instance.ts'
import { addReport } from '../../helpers/records.ts'
import { startServer } from '../../helpers/server.ts'

const AWAY = { name: 'StoreUnavailable' }

async function setUp(t: Test) {
  const { createRepository, createToken, options, store } = await startServer(t)
  const { commits } = await createRepository('acme/rocket')
  const [sha = ''] = commits
  const token = await createToken('acme')
  // A connection to files that were deleted removes those of the same names when it ends.
  await store.close()
  const start = () => startInstance(t, options, { LOG_LEVEL: 'error' })
  const report = (server: Instance, context: string) =>
    server.report('acme/rocket', sha, { state: 'success', context }, token)
  const contexts = async (server: Instance) => {
    const { json } = await server.read('acme/rocket', sha)
    return (json.statuses ?? []).map(({ context }) => context)
  }
  const instance = await start()
  t.equal((await report(instance, 'before')).status, 201)
  return { file: join(options.dataDir, 'commit-status.db'), instance, start, report, contexts, sha }
}

async function untilStatus(expected: number, ask: () => Promise<{ status: number }>): Promise<void> {
  while ((await ask()).status !== expected) await setTimeout(20)
}

t.test('does not acknowledge reports in a deleted file', async (t) => {
  const { file, instance, report, sha } = await setUp(t)
  const moved = `${file}.away`
  renameSync(file, moved)
  for (const context of ['before', 'new']) t.equal((await report(instance, context)).status, 503, context)
  await untilStatus(503, () => instance.call('GET', '/readyz'))
  await untilStatus(503, () => instance.read('acme/rocket', sha))
  t.equal((await instance.call('GET', '/healthz')).status, 200)
  t.match(instance.log.join('\n'), /commit-status\.db was deleted while .* restore the newest backup/)

  copyFileSync(moved, file)
  t.equal((await report(instance, 'copy')).status, 503, 'with another file in its place')
  rmSync(file)
  renameSync(moved, file)
  t.equal((await report(instance, 'after')).status, 201, 'after the file is back')
  await untilStatus(200, () => instance.call('GET', '/readyz'))
  t.equal((await instance.read('acme/rocket', sha)).status, 200)
})

t.test('a path that cannot be checked counts as deleted', async (t) => {
  const { file, instance, report, sha } = await setUp(t)
  const moved = `${file}.away`
  renameSync(file, moved)
  symlinkSync(file, file)
  t.equal((await report(instance, 'new')).status, 503)
  await untilStatus(503, () => instance.call('GET', '/readyz'))
  t.equal((await instance.read('acme/rocket', sha)).status, 503)
  t.match(instance.log.join('\n'), /commit-status\.db cannot be checked: ELOOP/)
  rmSync(file)
  renameSync(moved, file)
  t.equal((await report(instance, 'after')).status, 201)
})

for (const suffix of ['-wal', '-shm']) {
  t.test(`acknowledged reports survive a deleted ${suffix} file and a crash`, async (t) => {
    const { file, instance, start, report, contexts } = await setUp(t)
    const acknowledged = ['before']
    rmSync(`${file}${suffix}`)
    for (let index = 0; index < 20; index++) {
      const context = `after ${index}`
      const { status } = await report(instance, context)
      t.ok(status === 201 || status === 503)
      if (status === 201) acknowledged.push(context)
    }
    t.same(acknowledged, ['before'], 'noticed at once')
    t.match(instance.log.join('\n'), new RegExp(`commit-status\\.db${suffix} was deleted`))
    const exited = once(instance.child, 'exit')
    instance.child.kill('SIGKILL')
    await exited
    const again = await start()
    const stored = await contexts(again)
    t.same(
      acknowledged.filter((context) => !stored.includes(context)),
      [],
    )
    t.equal((await report(again, 'again')).status, 201)
  })
}

t.test('commands do not acknowledge anything either', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  const { id: userId } = await asAdministrator(store).users.create('alice')
  const file = join(options.dataDir, 'commit-status.db')
  const content = readFileSync(file)
  renameSync(file, `${file}.away`)
  t.ok(content.length > 0)
  const repository = { owner: 'alice', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  await t.rejects(asAdministrator(store).repositories.create(repository), AWAY, 'a transaction')
  const request = { name: 'ci', scopes: ['repo'], expiresAt: null }
  const issue = () =>
    issueToken(request, (token) => asAdministrator(store).tokens.create({ ...token, userId }))
  await t.rejects(issue(), AWAY)
  await t.rejects(store.users.list(), AWAY, 'a read')
  renameSync(`${file}.away`, file)
  t.equal((await issue()).token.name, 'ci')
})

for (const suffix of ['', '-wal', '-shm']) {
  t.test(
    `notices at once that commit-status.db${suffix} is gone, however long nothing changed`,
    async (t) => {
      const { store, options } = await openTestStore(t, sqlite)
      const place = { owner: 'acme', visibility: 'public', objectFormat: 'sha1' } as const
      const { id: repositoryId } = await asAdministrator(store).repositories.create({
        ...place,
        name: 'rocket',
      })
      const report = (context: string) => addReport({ store, repositoryId, sha: 'a'.repeat(40) }, context)
      const { now } = Date
      // The folder changed ten seconds ago.
      t.capture(Date, 'now', () => now() + 10_000)
      for (const context of ['one', 'two']) t.match(await report(context), { context })
      rmSync(join(options.dataDir, `commit-status.db${suffix}`))
      await t.rejects(report('three'), AWAY)
      await t.rejects(report('four'), AWAY)
    },
  )
}
