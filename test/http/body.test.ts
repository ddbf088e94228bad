import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { readJsonBody } from '../../src/http/body.ts'

t.test('nobody waits for the body of a client that is gone', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('it listens on a port')
  const client = connect(address.port, '127.0.0.1')
  client.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n{}')
  const [request, response]: [IncomingMessage, ServerResponse] = Object(await once(server, 'request'))
  request.on('error', () => {})
  const closed = new Promise((resolve) => request.once('close', resolve))
  client.destroy()
  await closed
  const began = performance.now()
  await t.rejects(readJsonBody(request, response, 100, 5_000), { code: 'malformed_request' })
  t.ok(performance.now() - began < 2_500, 'at once')
})
