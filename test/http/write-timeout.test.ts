import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createHttpServer, DEFAULT_TIMEOUTS } from '../../src/http/server.ts'
import { until } from '../git/sample-repository.ts'
import { basic, commit, createCheckout, git } from '../git-http/client.ts'
import { beginRpc, workersIn } from '../git-http/raw.ts'
import { startServer } from '../helpers/server.ts'

/** Milliseconds in which a client must take 30 KB. One that takes nothing is cut off after about three times as long. */
const WRITE = 300
const RATE = (30 * 1024) / WRITE
/** More than the system takes at once. */
const LARGE = Buffer.alloc(16 * 1024 * 1024, 'x')
const get = (path: string, ...headers: string[]) =>
  `${[`GET ${path} HTTP/1.1`, 'Host: test', ...headers].join('\r\n')}\r\n\r\n`

/** A connection on which nothing is read unless the test does so. */
async function dial(t: Test, url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname).on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** Our server with nothing behind it but `handle`. */
async function serve(t: Test, handle: RequestListener) {
  const server = createHttpServer(handle, { ...DEFAULT_TIMEOUTS, write: WRITE })
  const sockets: Socket[] = []
  server.on('connection', (socket) => sockets.push(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('it listens on a port')
  return { server, sockets, url: `http://127.0.0.1:${address.port}` }
}

function connectionsOf(server: Server): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
  return promise
}

const noConnections = (server: Server) => until(async () => (await connectionsOf(server)) === 0)

t.test('a client that takes nothing is cut off', async (t) => {
  const { server, url } = await serve(t, (_request, response) => response.end(LARGE))
  const socket = await dial(t, url)
  socket.write(get('/'))
  await setTimeout(WRITE)
  t.equal(await connectionsOf(server), 1, 'not at once')
  await noConnections(server)
})

t.test('a client that takes three times the lowest rate gets all', async (t) => {
  const { url } = await serve(t, (_request, response) => response.end(LARGE))
  const socket = await dial(t, url)
  socket.write(get('/', 'Connection: close'))
  let taken = 0
  const began = performance.now()
  while (performance.now() - began < 8 * WRITE) {
    await setTimeout(20)
    const due = Math.floor((performance.now() - began) * 3 * RATE) - taken
    taken += socket.read(Math.min(due, socket.readableLength))?.length ?? 0
  }
  t.ok(taken > 5 * WRITE * RATE, 'it went on')
  for await (const chunk of socket) taken += chunk.length
  t.ok(taken > LARGE.length)
})

t.test('time in which nothing waits to be sent does not count', async (t) => {
  const { url } = await serve(t, (_request, response) => {
    response.write('begin')
    globalThis.setTimeout(() => response.end(LARGE), 5 * WRITE)
  })
  const socket = await dial(t, url)
  socket.write(get('/', 'Connection: close'))
  await setTimeout(6 * WRITE)
  let taken = 0
  for await (const chunk of socket) taken += chunk.length
  t.ok(taken > LARGE.length)
})

t.test('of many pipelined requests one answer waits', async (t) => {
  const handled: (string | undefined)[] = []
  const { server, sockets, url } = await serve(t, (request, response) => {
    handled.push(request.url)
    response.end(LARGE)
  })
  const socket = await dial(t, url)
  const count = 100_000
  for (let index = 0; index < count; index += 1_000) {
    socket.write(Array.from({ length: 1_000 }, (_, place) => get(`/${index + place}`)).join(''))
  }
  await until(() => handled.length > 0)
  await setTimeout(WRITE)
  t.ok(handled.length < 3, 'each answer is begun when the one before it is taken')
  t.ok((sockets[0]?.bytesRead ?? 0) < 1024 * 1024, 'no more is read than a few chunks')
  await noConnections(server)
})

t.test('pipelined requests are answered in order', async (t) => {
  const { url } = await serve(t, async (request, response) => {
    const body = await text(request)
    if (request.url?.endsWith('00')) await setTimeout(2)
    response.end(`<${request.url} ${body}>`)
  })
  const socket = await dial(t, url)
  const count = 3_000
  const numbers = Array.from({ length: count }, (_, index) => index)
  const requests = numbers.map((number) => {
    const body = 'b'.repeat(number % 7 === 0 ? 1 + (number % 1_000) : 0)
    const head = get(`/${number}`, `Content-Length: ${body.length}`).replace('GET', 'POST')
    return body === '' ? get(`/${number}`) : head + body
  })
  socket.write(requests.join(''))
  let received = ''
  for await (const chunk of socket.setEncoding('latin1')) {
    received += chunk
    if (chunk.includes(`</${count - 1} `)) break
  }
  t.same(
    [...received.matchAll(/<\/(\d+) (b*)>/g)].map(([, number, body]) => [Number(number), body?.length]),
    numbers.map((number) => [number, number % 7 === 0 ? 1 + (number % 1_000) : 0]),
  )
})

t.test('every kind of answer that is not taken', async (t) => {
  const server = await startServer(t, { timeouts: { write: WRITE, idle: 1_000 } })
  const { path, commits } = await server.createRepository('owner/demo')
  const authorization = basic('x', await server.createToken('owner'))
  const remote = `${server.url}/owner/demo.git`
  const checkout = await createCheckout(t, remote)
  const id = await commit(checkout, 12_000_000)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:large'], { authorization })
  const token = await server.createToken('owner')
  const [sha = ''] = commits
  for (let index = 0; index < 30; index++) {
    const report = { state: 'success', context: `check ${index}`, description: 'd'.repeat(1000) }
    t.equal((await server.report('owner/demo', sha, report, token)).status, 201)
  }

  const clone = beginRpc(remote, 'git-upload-pack', authorization)
  clone.request.end(`0032want ${id}\n00000009done\n`)
  const [response] = await once(clone.request, 'response')
  response.pause()
  t.ok(workersIn(path).length > 0)
  for (const target of [`/api/v1/repos/owner/demo/commits/${sha}/statuses`, '/assets/swagger-ui-bundle.js']) {
    const socket = await dial(t, server.url)
    socket.write(get(target).repeat(20_000))
  }
  await noConnections(server.app.server)
  await until(() => workersIn(path).length === 0)
})
