import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { checkAll } from '../../src/maintenance/check.ts'
import { basic, createCheckout, git } from '../git-http/client.ts'
import { blockGit } from '../git-http/git-server.ts'
import { beginRpc, pushBody, servicesOf } from '../git-http/raw.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, sqlite } from '../helpers/databases.ts'
import { importGraph } from '../helpers/git.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

for (const database of databases)
  t.test(
    `${database.name}: a topic into which the branch was merged is no commit of the branch`,
    async (t) => {
      const server = await startServer(t, { database })
      const repository = await server.createRepository('acme/rocket', { commits: 0 })
      const authorization = basic('x', await server.createToken('acme'))
      const checkout = await createCheckout(t, `${server.url}/acme/rocket.git`)
      const run = (...args: string[]) => git(checkout, args)
      const push = () => git(checkout, ['push', '--quiet', 'origin', 'HEAD:main'], { authorization })
      const add = async (name: string) => {
        writeFileSync(join(checkout, name), name)
        await run('add', name)
        await run('commit', '--quiet', '-m', name)
        return run('rev-parse', 'HEAD')
      }
      const report = (sha: string, state: 'success' | 'failure' = 'success') =>
        addReport({ store: server.store, repositoryId: repository.id, sha }, 'ci', state)
      const lastPassed = async (query = '') =>
        (await server.call('GET', `/api/v1/repos/acme/rocket/last-passed?branch=main&require=ci${query}`))
          .json

      const base = await run('rev-parse', 'HEAD')
      await push()
      const fixes = await add('fixes')
      await push()
      await run('checkout', '--quiet', '-b', 'topic', base)
      const topic = await add('topic')
      await run('merge', '--quiet', '--no-ff', '-m', 'merge main', fixes)
      const merge = await run('rev-parse', 'HEAD')
      await push()
      for (const sha of [fixes, topic]) await report(sha)
      await report(merge, 'failure')
      t.equal(await run('rev-parse', `${merge}^1`), topic, 'the first parent was never on the branch')
      t.match(await lastPassed(), { commit: { sha: fixes }, looked_at: 2 })
      t.match(await lastPassed(`&after=${topic}`), { error: /is not known to have been at/ })

      const rule = { refPattern: 'main', required: ['ci'], bypass: [] }
      await asAdministrator(server.store).rules.set(repository, rule)
      const page = await (await fetch(`${server.url}/acme/rocket?ref=main`)).text()
      t.match(page, new RegExp(`id="last-passed">[^]*?/commits/${fixes}"`), 'the page says the same')
      await asAdministrator(server.store).repositories.rename(repository, { owner: 'acme', name: 'renamed' })
      const renamed = await server.call('GET', '/api/v1/repos/acme/renamed/last-passed?branch=main')
      t.match(renamed.json, { commit: { sha: fixes } }, 'after a rename')

      await asAdministrator(server.store).repositories.rename({ owner: 'acme', name: 'renamed' }, repository)
      await asAdministrator(server.store).rules.remove(repository, 'main')
      await git(checkout, ['push', '--quiet', '--force', 'origin', `${fixes}:main`], { authorization })
      await report(fixes, 'failure')
      await report(base)
      await git(repository.path, ['gc', '--quiet', '--prune=now'])
      const lookup = new CommitLookup()
      t.teardown(() => lookup.close())
      const choice = { full: false, commits: true, prune: true }
      t.equal((await checkAll(server.store, lookup, choice, () => {})).pruned.length, 2, 'topic and merge')
      t.match(await lastPassed(), { commit: { sha: base }, looked_at: 2 }, 'the moves are kept')
      t.match(await lastPassed(`&after=${merge}`), { error: /is not known to have been at/ }, 'collected')
      await git(checkout, ['push', '--quiet', 'origin', `${merge}:refs/heads/kept`], { authorization })
      t.match(await lastPassed(`&after=${merge}`), { commit: { sha: base } }, 'the branch was at it')
      t.match(await lastPassed(`&after=${fixes}`), { commit: { sha: base }, looked_at: 1 })
    },
  )

t.test('a push under way that says that the branch is new hides nothing', async (t) => {
  const server = await startServer(t, { database: sqlite })
  const repository = await server.createRepository('acme/rocket', { commits: 0 })
  const authorization = basic('x', await server.createToken('acme'))
  const [base, passed, topic, merge] = importGraph(repository.path, [[], [0], [0], [2, 1]])
  const main = 'refs/heads/main'
  const start = (old = '', id = '') => {
    const { request, answer } = beginRpc(`${server.url}/acme/rocket.git`, 'git-receive-pack', authorization)
    request.end(pushBody([`${old} ${id} ${main}`], 'report-status'))
    return answer
  }
  const none = '0'.repeat(40)
  for (const [old, id] of [
    [none, base],
    [base, passed],
    [passed, merge],
  ])
    t.match((await start(old, id)).body.toString(), `ok ${main}`)
  for (const sha of [passed, topic])
    await addReport({ store: server.store, repositoryId: repository.id, sha: sha ?? '' }, 'ci')
  const lastPassed = async () =>
    (await server.call('GET', '/api/v1/repos/acme/rocket/last-passed?branch=main&require=ci')).json
  t.match(await lastPassed(), { commit: { sha: passed } })

  const release = blockGit(t, 'git-receive-pack')
  const answer = start(none, merge)
  await until(() => servicesOf().length > 0)
  t.match(await lastPassed(), { commit: { sha: passed } }, 'not the first parent, which main was never at')
  release()
  t.match((await answer).body.toString(), `ng ${main} `)
  t.match(await lastPassed(), { commit: { sha: passed } })
})
