import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import tap, { type Test } from 'tap'
import { databases, sqlite, type TestDatabase } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { drain, fillCommit } from '../helpers/large-commit.ts'
import { longestStretch, measured } from '../helpers/loop-stretch.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { memoryOf } from '../helpers/process.ts'
import { startServer } from '../helpers/server.ts'

tap.setTimeout(600_000)

/**
 * Milliseconds of processor time without a turn of the event loop: with the worst content, and with
 * ordinary one.
 */
const MOST_STRETCH = { SQLite: 60, PostgreSQL: 100 }
const MOST_ORDINARY = 10
/** MiB of memory, whatever is read. */
const MOST_MEMORY = 1_024
const COMMITS = 20

await provideDatabases(tap)

async function serveCommits(t: Test, database: TestDatabase, commits: number) {
  const server = await startServer(t, { database })
  const repository = await server.createRepository('acme/rocket', { commits })
  const { id: repositoryId } = await server.store.repositories.get('acme', 'rocket')
  const instance = await startInstance(t, server.options, {}, measured)
  const urls = repository.commits.map(
    (sha) => `${instance.url}/api/v1/repos/acme/rocket/commits/${sha}/statuses`,
  )
  return { ...server, repositoryId, commits: repository.commits, instance, urls }
}

for (const database of databases) {
  tap.test(`${database.name}: the largest commits block the event loop only for a moment`, async (t) => {
    const mostStretch = MOST_STRETCH[database.name]
    // The first one warms up the server.
    const names = ['short', 'control', 'emoji', 'ascii', 'ordinary'] as const
    const { options, store, repositoryId, commits, instance, urls } = await serveCommits(
      t,
      database,
      names.length,
    )
    for (const [index, kind] of names.entries())
      await fillCommit(options, { repositoryId, sha: commits[index] ?? '', kind })
    for (const round of ['first', 'again'] as const) {
      for (const [index, kind] of names.entries()) {
        await longestStretch(instance)
        const since = performance.now()
        const { length } = await drain(urls[index] ?? '')
        const took = Math.round(performance.now() - since)
        const stretch = await longestStretch(instance)
        t.comment(
          `${database.name}, ${kind}, ${round}: ${length} bytes in ${took} ms, at most ${stretch} ms at a time`,
        )
        t.ok(stretch < (kind === 'ordinary' ? MOST_ORDINARY : mostStretch), `${kind}: ${stretch} ms`)
      }
    }
    for (const isCached of [true, false]) {
      if (!isCached)
        await store.statuses.report({
          repositoryId,
          sha: commits[0] ?? '',
          context: `0   ${'x'.repeat(251)}`,
          state: 'success',
        })
      await Promise.all([...urls, ...urls, ...urls].map(drain))
      const stretch = await longestStretch(instance)
      const name = `fifteen at once${isCached ? '' : ', after a commit of another process'}`
      t.comment(`${database.name}, ${name}: at most ${stretch} ms at a time`)
      t.ok(stretch < mostStretch, `${stretch} ms`)
    }
  })
}

tap.test('clients that do not read take no more than so much memory', async (t) => {
  const { options, repositoryId, commits, instance, urls } = await serveCommits(t, sqlite, COMMITS)
  for (const sha of commits) await fillCommit(options, { repositoryId, sha })
  await drain(urls[0] ?? '')
  const before = memoryOf(instance.child.pid, 'VmHWM')
  const answers = await Promise.all([...urls, ...urls, ...urls].map(open))
  const peak = memoryOf(instance.child.pid, 'VmHWM')
  t.comment(`memory: ${before} MiB after one read, ${peak} MiB at most with ${answers.length} answers unread`)
  t.ok(peak < MOST_MEMORY)
  for (const answer of answers) {
    t.equal(answer.statusCode, 200)
    answer.destroy()
  }
})

/** Asks, and leaves the answer unread. */
async function open(url: string): Promise<IncomingMessage> {
  const [answer] = await once(get(url), 'response')
  return answer
}
