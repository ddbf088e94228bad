import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { readJsonBody } from '../../src/http/body.ts'

t.test('reading the body of a disconnected client fails at once', async (t) => {
  const received = Promise.withResolvers<{ request: IncomingMessage; response: ServerResponse }>()
  const server = createServer((request, response) => received.resolve({ request, response }))
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('the server does not listen on a port')
  const client = connect(address.port, '127.0.0.1')
  client.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n{}')
  const { request, response } = await received.promise
  request.on('error', () => {})
  const closed = new Promise((resolve) => request.once('close', resolve))
  client.destroy()
  await closed
  await t.rejects(readJsonBody(request, response, 100, 60_000), { code: 'malformed_request' })
})
