import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { stopServing } from '../../src/ops/stop.ts'
import { startServer, type TestServer } from '../helpers/server.ts'

/** Opens a raw connection that collects what it receives. */
async function open(server: TestServer) {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  let received = ''
  socket.setEncoding('utf8').on('data', (text: string) => {
    received += text
  })
  const closed = once(socket, 'close')
  await once(socket, 'connect')
  return {
    socket,
    /** Returns everything received until the connection closed. */
    async rest(): Promise<string> {
      await closed
      return received
    },
  }
}

t.test('finishes requests in progress and closes every connection', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository('alice/rocket')
  const token = await server.createToken('alice')
  const body = JSON.stringify({ state: 'success' })
  const head =
    `POST /api/v1/repos/alice/rocket/statuses/${commits[0]} HTTP/1.1\r\nHost: x\r\n` +
    `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`

  const idle = await open(server)
  idle.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(idle.socket, 'data')
  const busy = await open(server)
  busy.socket.write(`${head}Expect: 100-continue\r\n\r\n`)
  // After 100 Continue the request is in progress.
  await once(busy.socket, 'data')

  const stopped = stopServing(server.app, new AbortController().signal)
  t.match(await idle.rest(), /^HTTP\/1\.1 200/)
  await t.rejects(fetch(server.url), 'accepts no new connection')
  busy.socket.write(body)
  t.match(await busy.rest(), /HTTP\/1\.1 201[\s\S]*"state":"success"/)
  await stopped
})

t.test('the wait is bounded', async (t) => {
  for (const how of ['by itself', 'when asked to'] as const) {
    const server = await startServer(t)
    const { commits } = await server.createRepository('alice/rocket')
    const token = await server.createToken('alice')
    const { socket, rest } = await open(server)
    socket.write(
      `POST /api/v1/repos/alice/rocket/statuses/${commits[0]} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n` +
        `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n`,
    )
    await once(socket, 'data')
    const force = new AbortController()
    const stopped = stopServing(server.app, force.signal, how === 'by itself' ? 200 : 60_000)
    if (how === 'when asked to') force.abort()
    await stopped
    t.match(await rest(), /^HTTP\/1\.1 100 Continue\r\n\r\n$/, `cut off ${how}`)
  }
})
