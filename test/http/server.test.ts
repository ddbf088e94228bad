import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { startServer, type TestServer } from '../helpers/server.ts'

async function dial(t: Test, { url }: TestServer): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

async function readAll(socket: Socket): Promise<string> {
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  return text
}

t.test('a body that breaks off or breaks HTTP is answered at once', async (t) => {
  const server = await startServer(t)
  const token = await server.createToken('owner')
  await server.createRepository('owner/demo')
  const head = (framing: string) =>
    `POST /api/v1/repos/owner/demo/statuses/${'a'.repeat(40)} HTTP/1.1\r\nHost: test\r\n` +
    `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`

  const broken = await dial(t, server)
  broken.write(`${head('Transfer-Encoding: chunked')}2\r\n{}\r\nnot a length\r\n`)
  t.match(await readAll(broken), /^HTTP\/1\.1 400 .*"error"/s)

  const short = await dial(t, server)
  short.end(`${head('Content-Length: 10')}{}`)
  t.match(await readAll(short), /^HTTP\/1\.1 400 .*"error"/s)
})

t.test('a connection that is kept open after its last answer does not hold up the end', async (t) => {
  const server = await startServer(t)
  await server.createRepository('owner/demo')
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  // The answer has begun, with the promise to keep the connection, when the server begins to close.
  const request = get(`${server.url}/owner/demo.git/info/refs?service=git-upload-pack`, { agent })
  const [response] = await once(request, 'response')
  const begin = performance.now()
  const closed = server.app.close()
  response.resume()
  await closed
  t.ok(performance.now() - begin < 5000)
})
