import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { checkAll } from '../../src/maintenance/check.ts'
import { basic, createCheckout, git } from '../git-http/client.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases } from '../helpers/databases.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

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
