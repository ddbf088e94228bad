import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { PassThrough, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { readForm, readJsonBody } from '../../src/http/body.ts'
import { receiveBody } from '../../src/http/receive-body.ts'
import { createHttpServer, DEFAULT_TIMEOUTS } from '../../src/http/server.ts'
import { until } from '../helpers/until.ts'

async function connectTo(t: Test, server: Server): Promise<Socket> {
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('the server does not listen on a port')
  return connect(address.port, '127.0.0.1')
}

t.test('a request may have no body', { timeout: 10_000 }, async (t) => {
  const pace = { bytes: 1, window: 60_000, first: 0 }
  const client = await connectTo(
    t,
    createHttpServer(async (request, response) => {
      const read = readJsonBody(request, response, 100, 60_000)
      const { signal } = new AbortController()
      await receiveBody(request, response, {
        sink: new PassThrough(),
        encoding: 'identity',
        maxBytes: 100,
        pace,
        signal,
      })
      const error: unknown = await read.catch((error: unknown) => error)
      response.end(`${error instanceof Error ? error.message : error}`)
    }, DEFAULT_TIMEOUTS),
  )
  for (const headers of ['', 'Content-Length: 0\r\n', 'Transfer-Encoding: chunked\r\n']) {
    client.write(
      `POST / HTTP/1.1\r\nHost: test\r\n${headers}\r\n${headers.startsWith('T') ? '0\r\n\r\n' : ''}`,
    )
    const [answer] = await once(client, 'data')
    t.match(String(answer), 'The body is empty', headers)
  }
  client.destroy()
})

t.test('a body that arrives slowly leaves no timer behind', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const read = Promise.withResolvers<void>()
  const server = createHttpServer(async (request, response) => {
    const before = timers()
    const form = readForm(request, response, 100, 60_000)
    t.equal(timers(), before + 1, 'while it arrives')
    read.resolve()
    await form
    response.end(`${timers() - before}`)
  }, DEFAULT_TIMEOUTS)
  const client = await connectTo(t, server)
  const type = 'Content-Type: application/x-www-form-urlencoded'
  client.write(`POST / HTTP/1.1\r\nHost: test\r\n${type}\r\nContent-Length: 3\r\n\r\na`)
  await read.promise
  client.write('=1')
  const [answer] = await once(client, 'data')
  t.match(String(answer), /\r\n\r\n(1\r\n)?0/)
  client.destroy()
})

t.test('a body that pauses is cut, however much of it came before', { timeout: 10_000 }, async (t) => {
  const client = await connectTo(
    t,
    createHttpServer(async (request, response) => {
      const pace = { bytes: 10, window: 100, first: 0 }
      const error = await receiveBody(request, response, { maxBytes: 1_000, pace }).catch(({ code }) => code)
      response.end(`${error}`)
    }, DEFAULT_TIMEOUTS),
  )
  client.write(`POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 600\r\n\r\n${'x'.repeat(500)}`)
  const [answer] = await once(client, 'data')
  t.match(String(answer), 'too_slow')
  client.destroy()
})

t.test('a body is not too slow for the time that it takes to store it', async (t) => {
  for (const [size, highWaterMark] of [
    // It has arrived, or the rest of it waits.
    [2, 100],
    [1_000_000, 1],
  ] as const) {
    const client = await connectTo(
      t,
      createHttpServer(async (request, response) => {
        let isFirst = true
        const sink = new Writable({
          highWaterMark,
          write(_chunk, _encoding, done) {
            setTimeout(done, isFirst ? 1_000 : 0)
            isFirst = false
          },
        })
        const pace = { bytes: 2, window: 100, first: 0 }
        const received = receiveBody(request, response, { maxBytes: size, pace, sink })
        response.end(await received.then(() => 'stored').catch(({ code }) => `${code}`))
      }, DEFAULT_TIMEOUTS),
    )
    client.write(`POST / HTTP/1.1\r\nHost: test\r\nContent-Length: ${size}\r\n\r\n${'x'.repeat(size)}`)
    const [answer] = await once(client, 'data')
    t.match(String(answer), 'stored', `${size} bytes`)
    client.destroy()
  }
})

t.test('a form may have the largest size, and no byte more', async (t) => {
  const client = await connectTo(
    t,
    createHttpServer(async (request, response) => {
      const form = await readForm(request, response, 100, 60_000).catch((error: Error) => error)
      response.end(form instanceof Error ? form.message : `${form.get('a')?.length} characters`)
    }, DEFAULT_TIMEOUTS),
  )
  for (const [length, expected] of [
    [100, '98 characters'],
    [101, 'larger than 100 bytes'],
  ] as const) {
    const type = 'Content-Type: application/x-www-form-urlencoded\r\n'
    client.write(`POST / HTTP/1.1\r\nHost: test\r\n${type}Content-Length: ${length}\r\n\r\na=`)
    client.write('x'.repeat(length - 2))
    const [answer] = await once(client, 'data')
    t.match(String(answer), expected)
  }
  client.destroy()
})

t.test('a client that waits for "100 Continue" gets it, also if it has sent the body', async (t) => {
  const client = await connectTo(
    t,
    createHttpServer(async (request, response) => {
      await until(() => request.complete)
      response.end(JSON.stringify(await readJsonBody(request, response, 100, 60_000)))
    }, DEFAULT_TIMEOUTS),
  )
  const post = (header: string) => `POST / HTTP/1.1\r\nHost: test\r\n${header}Content-Length: 3\r\n\r\n"x"`
  client.write(post('Expect: 100-continue\r\n') + post('Connection: close\r\n'))
  const statuses = (await text(client)).match(/(?<=HTTP\/1\.1 )\d+/g)
  t.same(statuses, ['100', '200', '200'])
})

t.test('a client of HTTP/1.0 gets no "100 Continue", which it does not know', async (t) => {
  const client = await connectTo(
    t,
    createHttpServer(async (request, response) => {
      response.end(JSON.stringify(await readJsonBody(request, response, 100, 60_000)))
    }, DEFAULT_TIMEOUTS),
  )
  client.write('POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"x"')
  t.match(await text(client), /^HTTP\/1\.1 200 /)
})

t.test('reading the body of a disconnected client fails at once', async (t) => {
  const received = Promise.withResolvers<{ request: IncomingMessage; response: ServerResponse }>()
  const server = createServer((request, response) => received.resolve({ request, response }))
  const client = await connectTo(t, server)
  client.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n{}')
  const { request, response } = await received.promise
  request.on('error', () => {})
  const closed = new Promise((resolve) => request.once('close', resolve))
  client.destroy()
  await closed
  await t.rejects(readJsonBody(request, response, 100, 60_000), { code: 'malformed_request' })
})

t.test('a body that gave way before it is read is refused at once', { timeout: 10_000 }, async (t) => {
  const reason = new Error('it gave way')
  const client = await connectTo(
    t,
    createHttpServer(async (request, response) => {
      const pace = { bytes: 1, window: 60_000, first: 0 }
      const sink = new PassThrough()
      const encoding = 'identity' as const
      const options = { sink, encoding, maxBytes: 100, pace, signal: AbortSignal.abort(reason) }
      const error: unknown = await receiveBody(request, response, options).catch((error: unknown) => error)
      response.end(`${error === reason} ${sink.destroyed}`)
    }, DEFAULT_TIMEOUTS),
  )
  client.write('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n12345')
  const [answer] = await once(client, 'data')
  t.match(String(answer), 'true true')
  client.destroy()
})
