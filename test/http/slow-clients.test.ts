import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { parseCidr } from '../../src/http/address.ts'
import { basic, commit, createCheckout, git } from '../git-http/client.ts'
import { beginRpc, workersIn } from '../git-http/raw.ts'
import { replaceGit } from '../helpers/git.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { connectionsOf, dial, getBytes, LARGE, noConnections, serve } from './connections.ts'

/** Milliseconds in which a client must receive something. */
const WRITE = 500
const TIMEOUTS = { write: WRITE }

t.test('the connection of a client that does not read is closed', async (t) => {
  const { server, url } = await serve(t, (_request, response) => response.end(LARGE), TIMEOUTS)
  const socket = await dial(t, url)
  socket.write(getBytes('/'))
  await setTimeout(WRITE)
  t.equal(await connectionsOf(server), 1, 'not at once')
  await noConnections(server)
})

t.test('a client that pauses receives the whole answer', async (t) => {
  const { url } = await serve(t, (_request, response) => response.end(LARGE), { write: 4_000 })
  const socket = await dial(t, url)
  socket.write(getBytes('/', 'Connection: close'))
  let taken = 0
  // All pauses together are longer than the timeout.
  for await (const chunk of socket) {
    if (Math.floor(taken / 2e6) < Math.floor((taken + chunk.length) / 2e6)) await setTimeout(1_000)
    taken += chunk.length
  }
  t.ok(taken > LARGE.length)
})

t.test('time in which the server computes the answer does not count', async (t) => {
  const { url } = await serve(
    t,
    (_request, response) => {
      response.write('begin')
      globalThis.setTimeout(() => response.end(LARGE), 5 * WRITE)
    },
    TIMEOUTS,
  )
  const socket = await dial(t, url)
  socket.write(getBytes('/', 'Connection: close'))
  let taken = 0
  for await (const chunk of socket) taken += chunk.length
  t.ok(taken > LARGE.length)
})

t.test('time in which git works silently does not count', async (t) => {
  const server = await startServer(t, { timeouts: { write: WRITE } })
  await server.createRepository('owner/demo')
  replaceGit(t, `sleep 1; exec "$git" "$@"`)
  const answer = await fetch(`${server.url}/owner/demo.git/info/refs?service=git-upload-pack`)
  t.match(await answer.text(), 'refs/heads/main')
})

t.test('answers of git, the API and assets are subject to the timeout', async (t) => {
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
    socket.write(getBytes(target).repeat(20_000))
  }
  await noConnections(server.app.server)
  await until(() => workersIn(path).length === 0)
})

t.test('an idle connection of a trusted proxy is kept longer', async (t) => {
  const trustedProxies = [parseCidr('127.0.0.1')]
  const server = await startServer(t, {
    trustedProxies,
    timeouts: { write: 200, idle: 300, proxyIdle: 6_000 },
  })
  const close = async (localAddress: string) => {
    const { hostname: host, port } = new URL(server.url)
    const socket = connect({ host, port: Number(port), localAddress }).resume()
    const closed = once(socket, 'close')
    socket.write(getBytes('/healthz'))
    const begun = performance.now()
    await closed
    return performance.now() - begun
  }
  const [proxy, other] = await Promise.all([close('127.0.0.1'), close('127.0.0.2')])
  t.ok(proxy > 5_900, `${proxy} ms`)
  t.ok(other < proxy - 500, `${other} ms`)
})

t.test('an idle connection is kept for the idle time, also with a shorter timeout of writes', async (t) => {
  const server = await startServer(t, { timeouts: { write: 1_500, idle: 4_000 } })
  const socket = await dial(t, server.url)
  const closed = once(socket.resume(), 'end')
  const begun = performance.now()
  for (const pause of [0, 500]) {
    await setTimeout(pause)
    socket.write(getBytes('/healthz'))
    await once(socket, 'data')
  }
  await closed
  const length = performance.now() - begun
  t.ok(length > 4_400 && length < 20_000, `${length} ms`)
})
