import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AppOptions } from '../../src/app.ts'
import { parseCidr } from '../../src/http/address.ts'
import { databases, sqlite, type TestDatabase } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { drain, fillCommit, openAnswer } from '../helpers/large-commit.ts'
import { recordLog } from '../helpers/log.ts'
import { longestStretch, measured } from '../helpers/loop-stretch.ts'
import { startServer } from '../helpers/server.ts'

/**
 * Milliseconds of CPU time that an answer with the worst content may block the event loop, once per
 * change.
 */
const MOST = 250

async function setUp(t: Test, database: TestDatabase, options: Partial<AppOptions> = {}) {
  const server = await startServer(t, { database, verifyReplies: false, ...options })
  const repository = await server.createRepository('acme/rocket')
  const { id } = await server.store.repositories.get('acme', 'rocket')
  const [sha = ''] = repository.commits
  const token = await server.createToken('acme')
  const report = (body: object) => server.report('acme/rocket', sha, body, token)
  const read = () => server.read('acme/rocket', sha)
  return { server, id, sha, report, read }
}

for (const database of databases) {
  t.test(`${database.name}: the largest answers block the event loop only for a moment`, async (t) => {
    const { server, id, sha } = await setUp(t, database)
    await fillCommit(server.options, { repositoryId: id, sha })
    const instance = await startInstance(t, server.options, {}, measured)
    const commit = `${instance.url}/api/v1/repos/acme/rocket/commits/${sha}`
    await longestStretch(instance)
    for (const [path, size] of [
      ['statuses', 9_500_000],
      [`verdict?${everything(10)}`, 15_000_000],
    ] as const) {
      const answers = await Promise.all([drain(`${commit}/${path}`), drain(`${commit}/${path}`)])
      const stretch = await longestStretch(instance)
      for (const { status, length } of answers)
        t.ok(status === 200 && length > size, `${path}: ${length} bytes`)
      t.ok(stretch < MOST, `${path}: ${stretch} ms`)
    }
    const { status } = await drain(`${commit}/verdict?${everything(11)}`)
    t.equal(status, 422, 'a verdict that lists more contexts')
    const stretch = await longestStretch(instance)
    t.ok(stretch < MOST, `${stretch} ms`)
  })

  t.test(
    `${database.name}: a report that arrives while an answer is built is in the next answer`,
    async (t) => {
      const { server, id, sha, report, read } = await setUp(t, database)
      await fillCommit(server.options, { repositoryId: id, sha, kind: 'short', contexts: 300 })
      for (let index = 0; index < 15; index++) {
        const context = `during ${index}`
        const before = read()
        await setTimeout(index)
        t.equal((await report({ state: 'success', context })).status, 201)
        const { json } = await read()
        t.ok(json.statuses?.some((status) => status.context === context))
        await before
      }
    },
  )
}

t.test('a client that disconnects before its answer has ended is no error', async (t) => {
  const { logger, lines } = recordLog('warn')
  const { server, id, sha, read } = await setUp(t, sqlite, { logger })
  await fillCommit(server.options, { repositoryId: id, sha, kind: 'ascii' })
  const path = `/api/v1/repos/acme/rocket/commits/${sha}/statuses`
  for (let round = 0; round < 3; round++) {
    const clients = Array.from({ length: 5 }, () => get(server.url + path, { agent: false }))
    for (const client of clients) client.on('error', () => {})
    await Promise.race(clients.map((client) => once(client, 'response')))
    for (const client of clients) client.destroy()
  }
  t.equal((await read()).status, 200)
  t.same(lines, [])
})

t.test('large answers that nobody reads take a bounded amount of memory', async (t) => {
  const { server, id, sha } = await setUp(t, sqlite, { trustedProxies: [parseCidr('127.0.0.1')] })
  await fillCommit(server.options, { repositoryId: id, sha })
  const commit = `${server.url}/api/v1/repos/acme/rocket/commits/${sha}`
  const open = (client: string) => openAnswer(t, `${commit}/verdict?${everything(10)}`, client)
  const slow = await open('192.0.2.2')
  const unread: IncomingMessage[] = []
  for (let count = 0; count < 12; count++) unread.push(await open('192.0.2.1'))
  t.ok(unread.every(({ statusCode }) => statusCode === 200))
  const ends = await Promise.allSettled([slow, ...unread].map((answer) => text(answer)))
  const cut = ends.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))
  t.ok(cut.length >= 3, '13 answers of 15 MB are more than 128 MiB')
  t.same(
    cut,
    [...cut.keys()].map((index) => index + 1),
    'the oldest of the client with the most bytes',
  )
})

/** Returns a query with so many different patterns that match every context. */
function everything(patterns: number): string {
  return Array.from({ length: patterns }, (_, index) => `require=${'*'.repeat(index + 1)}`).join('&')
}
