import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { lingeringClose } from '../../src/http/lingering-close.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { dial, getBytes, serve } from './connections.ts'

async function readAll(socket: Socket): Promise<string> {
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  return text
}

t.test('a truncated or malformed body is answered with 400 at once', async (t) => {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  await server.createRepository('owner/demo')
  const head = (framing: string) =>
    `POST /api/v1/repos/owner/demo/statuses/${'a'.repeat(40)} HTTP/1.1\r\nHost: test\r\n` +
    `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`

  const broken = await dial(t, server.url)
  broken.write(`${head('Transfer-Encoding: chunked')}2\r\n{}\r\nnot a length\r\n`)
  t.match(await readAll(broken), /^HTTP\/1\.1 400 .*"error"/s)

  const short = await dial(t, server.url)
  short.end(`${head('Content-Length: 10')}{}`)
  t.match(await readAll(short), /^HTTP\/1\.1 400 .*"error"/s)
})

t.test('a transfer coding that would have to be decoded is refused', async (t) => {
  const server = await startServer(t)
  for (const coding of ['gzip, chunked', 'chunked, chunked', 'identity, chunked']) {
    const socket = await dial(t, server.url)
    socket.write(`POST /healthz HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n`)
    t.match(await readAll(socket), /^HTTP\/1\.1 400 (?!.*HTTP\/1).*connection: close/is, coding)
  }
})

t.test('chunks in HTTP/1.0 are refused, and nothing after them is answered', async (t) => {
  // A proxy may take what follows the headers for a request of another client (RFC 9112, 6.1).
  const server = await startServer(t)
  const socket = await dial(t, server.url)
  socket.write(
    'GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' +
      'GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n',
  )
  t.match(await readAll(socket), /^HTTP\/1\.1 400 (?!.*HTTP\/1).*connection: close/is)
})

t.test('a target that is a whole URL is answered as its path, and its host counts', async (t) => {
  const server = await startServer(t)
  const ask = async (method: string, target: string) => {
    const socket = await dial(t, server.url)
    socket.write(`${method} ${target} HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nConnection: close\r\n\r\n`)
    return readAll(socket)
  }
  t.match(await ask('DELETE', 'http://a.example/openapi.json'), /^HTTP\/1\.1 405 .*allow: GET, HEAD/is)
  t.match(await ask('GET', 'HTTPS://a.example/api/v1/nope?x'), /^HTTP\/1\.1 404 .*application\/json/is)
  t.match(await ask('GET', 'http://a.example/alice/rocket?a'), 'location: /login?next=%2Falice%2Frocket%3Fa')
  t.match(await ask('GET', 'http://a.example?x'), /^HTTP\/1\.1 200 .*<!doctype html>/is)
  await server.createRepository('owner/demo', { commits: 0 })
  t.match(await ask('GET', 'http://a.example:81/owner/demo'), 'http://a.example:81/owner/demo.git')
})

t.test('a keep-alive connection does not delay the stop of the server', async (t) => {
  const server = await startServer(t)
  await server.createRepository('owner/demo')
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  // The head of the answer announces keep-alive before the server begins to close.
  const request = get(`${server.url}/owner/demo.git/info/refs?service=git-upload-pack`, { agent })
  const [response] = await once(request, 'response')
  // Without the idle timeout, only the stop itself can end the connection.
  server.app.server.keepAliveTimeout = 0
  const closed = server.app.close()
  response.resume()
  await closed
})

t.test('every answer has X-Content-Type-Options: nosniff', async (t) => {
  const server = await startServer(t, { metricsToken: 'metrics', budget: { limit: 3, window: 300 } })
  const { commits } = await server.createRepository('owner/demo')
  await server.createRepository('owner/hidden', { private: true })
  const read = `/api/v1/repos/owner/demo/commits/${commits[0]}/statuses`
  const get = (path: string, ...headers: string[]) => getBytes(path, 'Connection: close', ...headers)
  const refs = 'info/refs?service=git-upload-pack'
  const requests: [status: number, request: string][] = [
    [200, get(read)],
    [304, get(read, 'If-None-Match: *')],
    [401, get('/api/v1/repos/owner/hidden/commits/x/statuses')],
    [401, get(read, 'Authorization: Bearer wrong')],
    [422, get('/api/v1/repos/owner/demo/commits/x/statuses')],
    [401, get('/api/v1/repos/owner/demo/statuses/x', 'Content-Length: 0').replace('GET', 'POST')],
    [200, get(`/owner/demo.git/${refs}`)],
    [200, get(`/owner/demo/${refs}`)],
    [401, get(`/owner/hidden.git/${refs}`)],
    [200, get('/')],
    [200, get('/owner/demo')],
    [303, get('/settings/tokens')],
    [200, get('/assets/style.css')],
    [200, get('/openapi.yaml')],
    [200, get('/healthz')],
    [200, get('/readyz')],
    [401, get('/metrics', 'Authorization: Bearer wrong')],
    [200, get('/metrics', 'Authorization: Bearer metrics')],
    [404, get('/no/such/path')],
    [404, get('/no/such/path', 'Accept: text/html')],
    [405, get('/healthz').replace('GET', 'DELETE')],
    [400, get('/%zz')],
    [400, get('/\u00ff')],
    [400, get('/').replace('Host: test\r\n', '')],
    [400, get('/', 'no colon')],
    [417, get('/', 'Expect: more')],
    [431, get('/', `X: ${'x'.repeat(20_000)}`)],
    [401, get(read, 'Authorization: Bearer wrong')],
    [429, get(read, 'Authorization: Bearer wrong')],
  ]
  for (const [status, request] of requests) {
    const socket = await dial(t, server.url)
    socket.write(request, 'latin1')
    const [head = ''] = (await readAll(socket)).split('\r\n\r\n', 1)
    const what = `${status} ${request.slice(0, 70)}`
    t.match(head, new RegExp(`^HTTP/1\\.1 ${status} `), what)
    t.equal(head.match(/^x-content-type-options: nosniff$/gim)?.length, 1, what)
  }
})

t.test('a body that is sent byte by byte is buffered in few chunks', async (t) => {
  const read = Promise.withResolvers<{ chunks: number; text: string }>()
  const { url } = await serve(t, async (request, response) => {
    await until(() => request.complete)
    let chunks = 0
    let text = ''
    request.on('data', (chunk: Buffer) => {
      chunks++
      text += chunk
    })
    await once(request, 'end')
    response.end()
    read.resolve({ chunks, text })
  })
  const socket = await dial(t, url)
  const sent = Array.from({ length: 50_000 }, (_, index) => String(index % 10)).join('')
  const body = [...sent].map((byte) => `1\r\n${byte}\r\n`).join('')
  socket.write(`POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`)
  const { chunks, text } = await read.promise
  t.equal(text, sent)
  t.ok(chunks < 2_000, `${chunks} chunks`)
})

t.test('what a client still sends after its answer is discarded up to a limit', async (t) => {
  const server = createServer({ allowHalfOpen: true }, lingeringClose).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  let took = Number.POSITIVE_INFINITY
  // A busy machine may need longer to send so much.
  for (let attempt = 0; attempt < 3 && took > 1_500; attempt++) {
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
    t.teardown(() => client.destroy())
    const [socket] = await once(server, 'connection')
    const begun = performance.now()
    client.resume().write(Buffer.alloc(17 * 1024 * 1024))
    await once(socket, 'close')
    took = performance.now() - begun
  }
  t.ok(took < 1_500, 'before the time is over')
})

t.test('a refused body leaves the connection open if it is known to be short', async (t) => {
  const { url } = await serve(t, (_request, response) => response.writeHead(401).end())
  for (const [framing, isKept] of [
    ['Content-Length: 65536', true],
    ['Content-Length: 65537', false],
    ['Transfer-Encoding: chunked', false],
  ] as const) {
    const socket = await dial(t, url)
    socket.write(`POST / HTTP/1.1\r\nHost: test\r\n${framing}\r\n\r\n`)
    const [answer] = await once(socket, 'data')
    t.match(String(answer), isKept ? /^connection: keep-alive/im : /^connection: close/im, framing)
    socket.destroy()
  }
})

t.test('what the parser refuses is answered with the phrase of its status', async (t) => {
  const { url } = await serve(t, (_request, response) => response.end(), { headers: 300 })
  for (const [part, status] of [
    ['GET / HTTP/1.1\r\nHost', '408 Request Timeout'],
    ['nonsense\r\n\r\n', '400 Bad Request'],
    [getBytes('/', `X-A: ${'a'.repeat(20_000)}`), '431 Request Header Fields Too Large'],
  ] as const) {
    const socket = await dial(t, url)
    socket.write(part)
    const [answer] = await once(socket, 'data')
    t.equal(answer.toString().split('\r\n')[0], `HTTP/1.1 ${status}`)
  }
})

t.test(
  'a connection that was reset, or that the server has ended, gets no answer of the parser',
  async (t) => {
    const { server, sockets, url } = await serve(t, (_request, response) => response.end())
    const reset = await dial(t, url)
    await until(() => sockets.length === 1)
    server.emit('clientError', Object.assign(new Error('reset'), { code: 'ECONNRESET' }), sockets[0])
    t.equal(await readAll(reset), '')

    const ended = await dial(t, url)
    await until(() => sockets.length === 2)
    sockets[1]?.end()
    t.equal(await readAll(ended), '')
    ended.write('what is not HTTP\r\n\r\n')
    await until(() => sockets[1]?.destroyed === true)
    t.ok(sockets[1]?.destroyed, 'rather than kept open')
  },
)
