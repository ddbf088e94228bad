import type { RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { MAX_OVERFULL, MAX_WAITING } from '../../src/http/pipelining.ts'
import { until } from '../helpers/until.ts'
import { connectionsOf, dial, getBytes, LARGE, serve } from './connections.ts'

t.test('pipelined requests are answered in order', async (t) => {
  const { url } = await serve(t, async (request, response) => {
    const body = await text(request)
    if (request.url?.endsWith('0')) await setTimeout(2)
    response.end(`<${request.url} ${body}>`)
  })
  const socket = await dial(t, url)
  const bodyOf = (number: number) => 'b'.repeat(number % 7 === 0 ? 10 * number : 0)
  const numbers = Array.from({ length: 1 + MAX_WAITING }, (_, number) => number)
  const requests = numbers.map((number) => {
    const body = bodyOf(number)
    return getBytes(`/${number}`, `Content-Length: ${body.length}`).replace('GET', 'POST') + body
  })
  socket.write(requests.join(''))
  let received = ''
  for await (const chunk of socket.setEncoding('latin1')) {
    received += chunk
    if (received.endsWith(`</${MAX_WAITING} ${bodyOf(MAX_WAITING)}>`)) break
  }
  const answers = [...received.matchAll(/<\/(\d+) (b*)>/g)].map(([answer]) => answer)
  t.same(
    answers,
    numbers.map((number) => `</${number} ${bodyOf(number)}>`),
  )
})

t.test('requests after "Connection: close" are ignored', async (t) => {
  const handled: string[] = []
  const { url } = await serve(t, (request, response) => {
    handled.push(String(request.url))
    setTimeout(20).then(() => response.end('done'))
  })
  const socket = await dial(t, url)
  socket.write(getBytes('/1') + getBytes('/2', 'Connection: close') + getBytes('/3'))
  t.equal((await text(socket)).match(/done/g)?.length, 2)
  t.same(handled, ['/1', '/2'])
})

t.test(
  'after a request that cannot be read the connection keeps nothing, and ends with one 400',
  async (t) => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => warnings.push(warning)
    process.on('warning', onWarning)
    t.teardown(() => process.off('warning', onWarning))
    const answer = Promise.withResolvers<void>()
    const { url, server } = await serve(t, (_request, response) => {
      answer.promise.then(() => response.end('done'))
    })
    const socket = await dial(t, url)
    socket.setNoDelay(true).write(getBytes('/1'))
    let errors = 0
    server.on('clientError', () => errors++)
    while (errors < 20) {
      socket.write('no request\r\n\r\n')
      await setTimeout(2)
    }
    answer.resolve()
    t.same((await text(socket)).match(/HTTP\/1.1 .../g), ['HTTP/1.1 200', 'HTTP/1.1 400'])
    t.same(warnings, [], 'one listener waits')
  },
)

t.test('what follows a request with "Upgrade" is neither lost nor split', async (t) => {
  const handled: string[] = []
  const { url } = await serve(t, (request, response) => {
    handled.push(String(request.url))
    setTimeout(50).then(() => response.end('done'))
  })
  for (const protocol of ['h2c', 'websocket']) {
    const socket = await dial(t, url)
    socket.write(
      `${getBytes('/1', 'Connection: Upgrade', `Upgrade: ${protocol}`)}GET /2 HTTP/1.1\r\nHost: test\r\nX: `,
    )
    await setTimeout(20)
    socket.write(getBytes('/3'))
    const answer = await text(socket)
    t.match(answer, /^HTTP\/1\.1 200 .*connection: close.*done/is, 'so the client sends the others again')
    t.equal(answer.match(/HTTP\/1/g)?.length, 1)
  }
  t.same(handled, ['/1', '/1'])
  const refused = await dial(t, url)
  refused.write(getBytes('/1', 'Expect: x', 'Connection: Upgrade', 'Upgrade: h2c') + getBytes('/2'))
  t.match(await text(refused), /^HTTP\/1\.1 417 .*connection: close/is)
})

/** Returns a handler that answers with `LARGE` and records the paths of its requests. */
function counting(): { handle: RequestListener; handled: string[] } {
  const handled: string[] = []
  return {
    handled,
    handle(request, response) {
      handled.push(String(request.url))
      response.end(LARGE)
    },
  }
}

t.test('a connection has at most one answer in memory', async (t) => {
  const { handle, handled } = counting()
  const { sockets, url } = await serve(t, handle)
  const socket = await dial(t, url)
  socket.write(getBytes('/').repeat(1 + MAX_WAITING))
  await until(() => handled.length > 0)
  await setTimeout(100)
  t.equal(handled.length, 1, 'the second request waits until the first answer is sent')
  const { bytesRead = 0 } = sockets[0] ?? {}
  socket.write(getBytes('/').repeat(50_000))
  await setTimeout(100)
  t.equal(sockets[0]?.bytesRead, bytesRead, 'nothing more is read')
})

t.test('nothing more is read while requests wait, and all are answered', async (t) => {
  let release = () => {}
  const first = new Promise<void>((resolve) => {
    release = resolve
  })
  const { sockets, url } = await serve(t, async (request, response) => {
    await first
    response.end(`<${request.url}>`)
  })
  const socket = await dial(t, url)
  const numbers = Array.from({ length: 600 }, (_, number) => number)
  socket.write(numbers.map((number) => getBytes(`/${number}`, `X: ${'x'.repeat(1_500)}`)).join(''))
  await until(() => (sockets[0]?.bytesRead ?? 0) > 0)
  await setTimeout(100)
  t.ok((sockets[0]?.bytesRead ?? 0) <= 64 * 1024, 'what one read brings')
  release()
  let received = ''
  for await (const chunk of socket.setEncoding('latin1')) {
    received += chunk
    if (received.endsWith('</599>')) break
  }
  t.equal(received.match(/<\/\d+>/g)?.length, 600)
})

t.test('what has arrived is answered although the client has ended its half', async (t) => {
  const started = Promise.withResolvers<void>()
  const { server, url } = await serve(t, async (request, response) => {
    if (request.url === '/slow') started.resolve()
    else await setTimeout(2).then(() => response.end('done'))
  })
  for (const requests of [1, 50]) {
    const socket = await dial(t, url)
    socket.end(getBytes('/', 'Content-Length: 2').replace('GET', 'POST').concat('hi').repeat(requests))
    t.equal((await text(socket)).match(/done/g)?.length, requests)
  }
  const slow = await dial(t, url)
  slow.end(getBytes('/slow'))
  await started.promise
  t.equal(await text(slow), '', 'but not for longer than what a client that has disconnected may cost')
  await until(async () => (await connectionsOf(server)) === 0)
})

t.test('a request that was started is answered, also after its client may start no others', async (t) => {
  let started = 0
  const { url } = await serve(t, async (request, response) => {
    started++
    await setTimeout(request.url === '/late' ? 2_500 : 1_200)
    response.end('done')
  })
  const post = getBytes('/', 'Content-Length: 2').replace('GET', 'POST').concat('hi')
  for (const bytes of [
    getBytes('/late'),
    getBytes('/').repeat(2),
    post.repeat(10),
    post.repeat(2 + MAX_WAITING),
  ]) {
    started = 0
    const socket = await dial(t, url)
    socket.end(bytes)
    t.equal((await text(socket)).match(/done/g)?.length, started)
    t.ok(started < 10)
  }
})

t.test('of too many requests those that may wait are answered', async (t) => {
  let [parsed, answered] = [0, 0]
  const { server, url } = await serve(t, async (_request, response) => {
    await setTimeout(1)
    answered++
    response.end('done')
  })
  server.on('request', () => parsed++)
  const socket = await dial(t, url)
  socket.write(getBytes('/').repeat(50_000))
  await until(() => answered === 1 + MAX_WAITING)
  await setTimeout(100)
  const answers = await text(socket)
  t.equal(answers.match(/done/g)?.length, answered, 'also of a client that reads late')
  t.equal(answers.match(/connection: close/gi)?.length, 1)
  t.match(answers, /connection: close.{0,200}done$/is, 'the last one says so')
  t.ok(parsed < 5_000, 'what is discarded is not parsed')
})

t.test('few connections may have sent too many requests', async (t) => {
  const { handle, handled } = counting()
  const { server, sockets, url } = await serve(t, handle)
  const modest = await dial(t, url)
  modest.write(getBytes('/').repeat(1 + MAX_WAITING))
  await until(() => handled.length === 1)
  for (let index = 0; index < 3 + MAX_OVERFULL; index++)
    (await dial(t, url)).write(getBytes('/').repeat(2 + MAX_WAITING))
  await until(async () => (await connectionsOf(server)) === 1 + MAX_OVERFULL)
  t.notOk(sockets[0]?.destroyed)
  t.equal(handled.length, 4 + MAX_OVERFULL, 'requests that wait are not started')
})
