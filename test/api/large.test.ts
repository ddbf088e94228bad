import { once } from 'node:events'
import { get } from 'node:http'
import { Writable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AppOptions } from '../../src/app.ts'
import { etagOf } from '../../src/http/etag.ts'
import { createLogger } from '../../src/ops/logger.ts'
import { databases, type TestDatabase } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { drain, fillCommit } from '../helpers/large-commit.ts'
import { longestStretch, measured } from '../helpers/loop-stretch.ts'
import { startServer } from '../helpers/server.ts'

/** Milliseconds of CPU time: about four times what a slice takes, and half of what an answer takes without slices. */
const MOST = 100

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
  t.test(`${database.name}: the largest answer does not block the event loop`, async (t) => {
    const { server, id, sha } = await setUp(t, database)
    await fillCommit(server.options, { repositoryId: id, sha })
    const instance = await startInstance(t, server.options, {}, measured)
    const url = `${instance.url}/api/v1/repos/acme/rocket/commits/${sha}/statuses`
    await longestStretch(instance)
    const answers = await Promise.all([drain(url), drain(url)])
    const stretch = await longestStretch(instance)
    for (const { length } of answers) t.ok(length > 19_000_000, `${length} bytes`)
    t.ok(stretch < MOST, `${stretch} ms`)
  })

  t.test(`${database.name}: a client that disconnects while it waits is no error`, async (t) => {
    const lines: string[] = []
    const destination = new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk))
        done()
      },
    })
    const { server, id, sha, read } = await setUp(t, database, { logger: createLogger('warn', destination) })
    await fillCommit(server.options, { repositoryId: id, sha, kind: 'emoji' })
    const path = `/api/v1/repos/acme/rocket/commits/${sha}/statuses`
    for (let round = 0; round < 3; round++) {
      const clients = Array.from({ length: 10 }, () => get(server.url + path, { agent: false }))
      for (const client of clients) client.on('error', () => {})
      await Promise.race(clients.map((client) => once(client, 'response')))
      for (const client of clients) client.destroy()
    }
    t.equal((await read()).status, 200)
    t.same(lines, [])
  })

  t.test(`${database.name}: an answer built in slices has the same bytes`, async (t) => {
    const { server, id, sha, report, read } = await setUp(t, database)
    await fillCommit(server.options, { repositoryId: id, sha, kind: 'short', contexts: 300 })
    const odd = ['[]', '],"statuses":[', '\u{10FFFF}', '"\\', 'a']
    for (const context of odd) t.equal((await report({ state: 'pending', context })).status, 201)
    const answer = await read()
    t.equal(answer.status, 200)
    t.equal(answer.body, JSON.stringify(answer.json))
    t.equal(answer.headers.get('etag'), etagOf(answer.body))
    t.equal(answer.headers.get('content-length'), `${Buffer.byteLength(answer.body)}`)
    t.equal(answer.json.state, 'pending')
    t.equal(answer.json.statuses?.length, 305)
    const contexts = (answer.json.statuses ?? []).map(({ context }) => context)
    t.same(
      contexts,
      contexts.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
    )
    for (const context of odd) t.ok(contexts.includes(context))
    const same = await server.read('acme/rocket', sha, undefined, { 'if-none-match': etagOf(answer.body) })
    t.equal(same.status, 304)
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
