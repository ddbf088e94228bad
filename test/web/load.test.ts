import { once } from 'node:events'
import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { parseCidr } from '../../src/http/address.ts'
import { isRunning } from '../git/sample-repository.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { replaceGit } from '../helpers/git.ts'
import { fillCommit, openAnswer } from '../helpers/large-commit.ts'
import { recordLog } from '../helpers/log.ts'
import { openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'
import { turnsOf } from '../helpers/turns.ts'
import { until } from '../helpers/until.ts'

const STATUSES = 1_000

async function setUp(t: Test) {
  const { logger, lines } = recordLog('warn')
  const server = await startServer(t, {
    logger,
    trustedProxies: [parseCidr('127.0.0.1')],
  })
  return { server, lines, client: openPageClient(server.url) }
}

t.test(`a commit with ${STATUSES} long statuses`, async (t) => {
  const { server, lines, client } = await setUp(t)
  const { id, commits } = await server.createRepository('alice/rocket')
  const [sha = ''] = commits
  const contexts = Array.from({ length: STATUSES }, (_, index) => `check ${String(index).padStart(4, '0')}`)
  const report = (context: string, state: 'success' | 'pending') =>
    server.store.statuses.report({
      repositoryId: id,
      sha,
      context,
      state,
      description: '<&>'.repeat(300),
      target_url: `https://ci.example.org/?${'&'.repeat(1_000)}`,
    })
  for (let at = 0; at < STATUSES; at += 100)
    await Promise.all(contexts.slice(at, at + 100).map((context) => report(context, 'success')))

  t.test('is rendered completely', async (t) => {
    const start = `/alice/rocket/commits/${sha}`
    const small = await client.get(start)
    t.match(small.body, '<a href="?state=success">Passed <span class="count">1000</span></a>')
    t.ok(small.body.length < 60_000, `a page of ${small.body.length} bytes links what passed`)
    const page = `${start}?state=success`
    const { status, headers, body } = await client.get(page)
    t.equal(status, 200)
    t.equal(headers.get('content-type'), 'text/html; charset=utf-8')
    t.same(
      [...body.matchAll(/<bdi>(check \d+)</g)].map(([, context]) => context),
      contexts,
    )
    const summary = (text: string) => /<p class="facts[^>]*>(.*?)<\/p>/s.exec(text)?.[1]
    t.match(summary(body), /success<\/span> .*1000 passed/)
    t.match(
      body.slice(-400),
      /<\/li>\s*<\/ul><\/div><\/details>\s*<\/div>[\s\S]{1,300}<\/noscript><\/main>\s*<\/body>\s*<\/html>\s*$/,
    )
    const head = await client.send('HEAD', page)
    t.same([head.status, head.body], [200, ''])
    await report(contexts.at(-1) ?? '', 'pending')
    t.match(summary((await client.get(page)).body), /pending<\/span> .*1 pending.*999 passed/)
    t.match((await client.get('/alice/rocket')).body, `>${STATUSES - 1} passed<`)
  })

  t.test('may be aborted', async (t) => {
    const left = request(`${server.url}/alice/rocket/commits/${sha}?state=success`, { agent: false })
    left.end()
    const [answer] = await once(left, 'response')
    await once(answer, 'data')
    left.destroy()
    t.equal((await client.get('/alice/rocket')).status, 200)
    t.same(
      lines.filter((line) => JSON.parse(line).level >= 50),
      [],
      'logs no error',
    )
  })
})

t.test('many concurrent page requests of one address do not block other addresses', async (t) => {
  const { server, client } = await setUp(t)
  await server.createRepository('alice/rocket')
  const { hostname, port } = new URL(server.url)
  const count = 300
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  let text = ''
  for (const socket of sockets) {
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk
    })
    socket.write('GET /alice/rocket HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n')
  }
  const page = await client.get('/alice/rocket', { headers: { 'x-forwarded-for': '192.0.2.2' } })
  t.equal(page.status, 200)
  const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status)
  await until(() => statuses().length === count)
  for (const socket of sockets) socket.destroy()
  const served = statuses().filter((status) => status === '200').length
  const refused = statuses().filter((status) => status === '503').length
  // The page of the other address may be the one in progress.
  t.ok(served >= 250, `${served} served: at least 250 waiting`)
  t.equal(served + refused, count, 'every request got its page or 503')
  t.equal([...text.matchAll(/retry-after: 2/g)].length, refused)
})

t.test('one page is rendered in each turn of the event loop, from however many addresses', async (t) => {
  const { server, client } = await setUp(t)
  await server.createRepository('alice/rocket')
  const turns = turnsOf(t, 'tracing:fastify.request.handler:asyncEnd')
  const get = (index: number) =>
    client.get('/alice/rocket', { headers: { 'x-forwarded-for': `192.0.2.${index}` } })
  const pages = await Promise.all(Array.from({ length: 40 }, (_, index) => get(index)))
  for (const { status } of pages) t.equal(status, 200)
  t.equal(turns.length, pages.length)
  t.equal(new Set(turns).size, turns.length)
})

t.test('large pages that nobody reads take a bounded amount of memory', async (t) => {
  const { server, client } = await setUp(t)
  const { id: repositoryId, commits } = await server.createRepository('alice/rocket')
  const [sha = ''] = commits
  await fillCommit(server.options, { repositoryId, sha, kind: 'emoji', contexts: STATUSES })
  const path = `/alice/rocket/commits/${sha}?state=success`
  const open = (client: string) => openAnswer(t, server.url + path, client)
  const other = await open('192.0.2.2')
  const unread: IncomingMessage[] = []
  for (let count = 0; count < 19; count++) unread.push(await open('192.0.2.1'))
  const small = await client.get('/alice/rocket', { headers: { 'x-forwarded-for': '192.0.2.1' } })
  t.equal(small.status, 200)
  const ends = await Promise.allSettled([other, ...unread].map((answer) => text(answer)))
  const cut = ends.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))
  t.ok(cut.length >= 2, '20 pages of 7.7 MB are more than 128 MiB')
  t.same(
    cut,
    [...cut.keys()].map((index) => index + 1),
    'the oldest of the client with the most bytes',
  )
})

t.test('git is stopped when the waiting user disconnects', async (t) => {
  const { server, lines } = await setUp(t)
  await server.createRepository('alice/rocket')
  const folder = temporaryFolder(t)
  const pid = join(folder, 'pid')
  replaceGit(t, `echo $$ > ${pid}.new; mv ${pid}.new ${pid}; exec sleep 60`)
  const left = request(`${server.url}/alice/rocket`, { agent: false })
  left.on('error', () => {})
  left.end()
  await until(() => existsSync(pid))
  const process = Number(readFileSync(pid, 'utf8'))
  t.equal(isRunning(process), true)
  left.destroy()
  await until(() => !isRunning(process))
  t.same(lines, [], 'logs no error')
})

t.test('lists show repositories for which too much waits for git already', async (t) => {
  const { server, client } = await setUp(t)
  const { path } = await server.createRepository('alice/rocket')
  const folder = temporaryFolder(t)
  const row = { visibility: 'public', objectFormat: 'sha1' } as const
  for (const owner of ['bob', 'carol'])
    for (let index = 0; index < 150; index++) {
      const link = join(folder, `${owner}-${index}.git`)
      symlinkSync(path, link)
      await asAdministrator(server.store).repositories.create({ ...row, owner, name: `${index}`, path: link })
    }
  replaceGit(t, 'case "$*" in *" log "*) exec sleep 5 ;; esac; exec "$git" "$@"')
  for (const { status, body } of await Promise.all(['/bob', '/carol'].map((list) => client.get(list))))
    t.same([status, body.match(/Reading this repository takes long/g)?.length], [200, 150])
})
