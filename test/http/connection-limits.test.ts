import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { parseCidr } from '../../src/http/address.ts'
import { createConnectionLimiter, defaultConnectionLimits } from '../../src/http/connection-limits.ts'
import { isAtWork } from '../../src/http/pipelining.ts'
import { recordLog } from '../helpers/log.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { dial, serve } from './connections.ts'

const PER_CLIENT = 5
const TOTAL = 18
const PROXY = '127.0.0.9'

async function setUp(t: Test, connections = { total: TOTAL, perClient: PER_CLIENT }) {
  const { logger, lines } = recordLog('warn')
  const server = await startServer(t, {
    connections,
    trustedProxies: [parseCidr(PROXY)],
    timeouts: { body: 60_000 },
    logger,
  })
  let begun = 0
  server.app.server.on('request', ({ method }) => {
    if (method === 'POST') begun++
  })
  const port = Number(new URL(server.url).port)
  /** Opens connections from an address and returns those that the server answers on. */
  const open = async (localAddress: string, count: number): Promise<Socket[]> => {
    const sockets = Array.from({ length: count }, () =>
      connect({ host: '127.0.0.1', port, localAddress }).on('error', () => {}),
    )
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
    })
    const answered = await Promise.all(
      sockets.map((socket) => {
        socket.write('GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n')
        const { promise, resolve } = Promise.withResolvers<boolean>()
        socket.once('data', () => resolve(true)).once('close', () => resolve(false))
        return promise
      }),
    )
    return sockets.filter((_, index) => answered[index])
  }
  /** Sends a request on each connection, whose body never comes. */
  const work = async (sockets: Socket[]) => {
    const before = begun
    for (const socket of sockets)
      socket.write(
        'POST /login HTTP/1.1\r\nHost: test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n',
      )
    await until(() => begun === before + sockets.length)
  }
  return { server, open, work, lines }
}

t.test('one address holds at most its share of the connections', async (t) => {
  const { open, lines } = await setUp(t)
  const held = await open('127.0.0.2', PER_CLIENT + 3)
  t.equal(held.length, PER_CLIENT)
  t.equal((await open('127.0.0.3', PER_CLIENT)).length, PER_CLIENT, 'another address has its own share')
  t.same(await open('127.0.0.2', 1), [])
  for (const socket of held.slice(0, 2)) socket.destroy()
  await until(async () => (await open('127.0.0.2', 1)).length === 1)
  t.equal(lines.length, 1, 'refusals are logged once a minute')
  t.match(JSON.parse(lines[0] ?? ''), {
    address: '127.0.0.2',
    connections: PER_CLIENT,
    clients: 1,
    level: 40,
  })
})

t.test('all addresses together hold at most the total, a trusted proxy too', async (t) => {
  const { open, work, lines } = await setUp(t)
  t.equal((await open(PROXY, 2 * PER_CLIENT)).length, 2 * PER_CLIENT)
  await work(await open('127.0.0.2', PER_CLIENT))
  await work(await open('127.0.0.3', TOTAL - 3 * PER_CLIENT))
  t.same(await open(PROXY, 1), [], 'a new connection finds no place')
  t.match(JSON.parse(lines[0] ?? ''), { address: PROXY, clients: 2 * PER_CLIENT + 2 })
  t.same(await open('127.0.0.4', 1), [], 'nor does a new client')
})

t.test('where all connections are taken, idle ones of who has most give way to who has fewer', async (t) => {
  const { open, work, lines } = await setUp(t)
  const [busy, most, other] = [
    await open('127.0.0.2', PER_CLIENT),
    await open('127.0.0.3', PER_CLIENT),
    await open('127.0.0.4', PER_CLIENT),
  ]
  const few = await open('127.0.0.5', TOTAL - 3 * PER_CLIENT)
  await work([...busy, ...most.slice(0, 4)])
  t.same(lines, [])
  t.equal((await open('127.0.0.6', PER_CLIENT)).length, 3, 'until nobody has more')
  const closed = (sockets: Socket[]) => sockets.filter(({ destroyed }) => destroyed).length
  await until(() => closed([...busy, ...most, ...other, ...few]) === 3)
  t.same([busy, most, other, few].map(closed), [0, 1, 2, 0])
  t.equal(most[4]?.destroyed, true)
  const [first = '', second = '', ...rest] = lines
  t.match(JSON.parse(first), {
    address: '127.0.0.3',
    connections: PER_CLIENT,
    msg: /idle ones of this address/,
  })
  t.match(JSON.parse(second), { address: '127.0.0.6', clients: 5, msg: /new ones are closed/ })
  t.same(rest, [], 'each text once a minute')
})

t.test('a connection whose answer the client may not have read yet is not closed for others', async (t) => {
  const { open } = await setUp(t, { total: 3, perClient: 3 })
  const sockets = await open('127.0.0.2', 3)
  for (const socket of sockets) {
    socket.write('POST /nowhere HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n')
    const [answer] = await once(socket, 'data')
    t.match(String(answer), /^HTTP\/1.1 405 /)
  }
  t.same(await open('127.0.0.3', 1), [], 'the body of each has not arrived')
  sockets[1]?.write('some text')
  await until(async () => (await open('127.0.0.3', 1)).length === 1)
  t.same(
    sockets.map(({ destroyed }) => destroyed),
    [false, true, false],
  )
})

t.test('a connection with an error that ends it is not closed for others', async (t) => {
  const { sockets, url } = await serve(t, (_request, response) => response.end())
  const socket = await dial(t, url)
  await until(() => sockets.length === 1)
  const [accepted] = sockets
  t.equal(accepted && isAtWork(accepted), false)
  socket.write('not HTTP\r\n\r\n')
  t.match(await text(socket), /^HTTP\/1.1 400 /)
  t.equal(accepted && isAtWork(accepted), true)
})

t.test('an idle connection is found behind any number that are not', async (t) => {
  const { open, work } = await setUp(t, { total: 102, perClient: 102 })
  await work((await open('127.0.0.2', 102)).slice(0, 101))
  await until(async () => (await open('127.0.0.3', 1)).length === 1)
})

t.test('other forms of an address, and closing twice, open no more connections', (t) => {
  const server = createServer()
  createConnectionLimiter({ total: 100, perClient: 2 }, [], () => {})(server)
  const connectFrom = (remoteAddress: string) => {
    const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress })
    server.emit('connection', socket)
    return socket
  }
  const admitted = (...addresses: string[]) => addresses.map((address) => !connectFrom(address).destroyed)
  t.same(admitted('192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201'), [true, true, false])
  t.same(admitted('2001:db8::1', '2001:db8:0:0:ffff::1', '2001:DB8::2'), [true, true, false])
  t.same(admitted('2001:db8:0:1::1'), [true], 'another /64')

  const [first, second] = [connectFrom('192.0.2.2'), connectFrom('192.0.2.2')]
  for (const event of ['close', 'close']) first.emit(event)
  t.same(admitted('192.0.2.2', '192.0.2.2'), [true, false])
  second.destroy()
  t.end()
})

t.test('the default is half of the open files, and an eighth for one address', async (t) => {
  const { total, perClient } = defaultConnectionLimits()
  t.ok(total >= 4 * perClient && total < 4 * (perClient + 1))
  t.equal(Number.isFinite(total), process.platform === 'linux')
})
