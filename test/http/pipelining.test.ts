import type { RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { until } from '../git/sample-repository.ts'
import { dial, getBytes, LARGE, noConnections, serve } from './connections.ts'

t.test('pipelined requests are answered in order, whatever their number and their bodies', async (t) => {
  const { url } = await serve(t, async (request, response) => {
    const body = await text(request)
    if (request.url?.endsWith('00')) await setTimeout(2)
    response.end(`<${request.url} ${body}>`)
  })
  const socket = await dial(t, url)
  const bodyOf = (number: number) => 'b'.repeat(number % 7 === 0 ? 1 + (number % 1_000) : 0)
  const numbers = Array.from({ length: 3_000 }, (_, number) => number)
  const requests = numbers.map((number) => {
    const body = bodyOf(number)
    return getBytes(`/${number}`, `Content-Length: ${body.length}`).replace('GET', 'POST') + body
  })
  socket.write(requests.join(''))
  let received = ''
  for await (const chunk of socket.setEncoding('latin1')) {
    received += chunk
    if (received.endsWith(`</2999 ${bodyOf(2999)}>`)) break
  }
  const answers = [...received.matchAll(/<\/(\d+) (b*)>/g)].map(([answer]) => answer)
  t.same(
    answers,
    numbers.map((number) => `</${number} ${bodyOf(number)}>`),
  )
})

t.test('what follows the last answer is not looked at', async (t) => {
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

/** Answers with more than the system takes, and counts. */
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

t.test('of many pipelined requests one answer waits', async (t) => {
  const { handle, handled } = counting()
  const { sockets, url } = await serve(t, handle)
  const socket = await dial(t, url)
  socket.write(getBytes('/').repeat(50_000))
  await until(() => handled.length > 0)
  await setTimeout(200)
  t.equal(handled.length, 1, 'the next answer is begun when this one is taken')
  t.ok((sockets[0]?.bytesRead ?? 0) < 512 * 1024, 'no more is read than a few chunks')
})

t.test('only so many requests wait on all connections', async (t) => {
  const { handle } = counting()
  const { server, sockets, url } = await serve(t, handle)
  const modest = await dial(t, url)
  modest.write(getBytes('/').repeat(20))
  await until(() => sockets.length === 1)
  for (let index = 0; index < 12; index++) (await dial(t, url)).write(getBytes('/').repeat(5_000))
  await until(() => sockets.filter(({ destroyed }) => destroyed).length > 4)
  t.notOk(sockets[0]?.destroyed, 'one with few is kept')
  const late = await dial(t, url)
  late.write(getBytes('/').repeat(20))
  await setTimeout(100)
  t.notOk(sockets.at(-1)?.destroyed, 'also when it comes late')

  for (const socket of sockets) socket.destroy()
  await noConnections(server)
  const next = await dial(t, url)
  next.write(getBytes('/').repeat(1_500))
  await setTimeout(200)
  t.notOk(sockets.at(-1)?.destroyed, 'who is gone waits no longer')
})
