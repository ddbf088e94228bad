import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { connect } from 'node:net'
import { clearInterval, setInterval } from 'node:timers'
import { setTimeout } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { ServiceError } from '../../src/errors.ts'
import { createBeginnings } from '../../src/git-http/beginnings.ts'
import { DEFAULT_GIT_LIMITS } from '../../src/git-http/limits.ts'
import { stopServing } from '../../src/ops/stop.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { startInstance } from '../helpers/instance.ts'
import { requestBytes } from '../helpers/keep-alive.ts'
import { turnsOf } from '../helpers/turns.ts'
import { until } from '../helpers/until.ts'
import { basic } from './client.ts'
import { checkBusy, finish, HALF_OPEN, startGitServer, WHOLE, watchServices } from './git-server.ts'
import {
  beginRefs,
  beginRpc,
  EMPTY_PACK,
  packet,
  pushBody,
  type RawAnswer,
  rpcText,
  servicesOf,
  spooledBytes,
  spooledFiles,
  workersIn,
} from './raw.ts'

t.test('the number of waiting requests is bounded, and disconnected clients leave the queue', async (t) => {
  const { hold, refs, clone, path } = await startGitServer(t, { maxChildren: 1 })
  const held = await hold()
  for (let round = 0; round < 2; round++) {
    const refused: RawAnswer[] = []
    const waiting = Array.from({ length: 130 }, () => refs('127.0.0.2'))
    for (const { answer } of waiting) answer.then((given) => refused.push(given)).catch(() => {})
    await until(() => refused.length >= 2)
    await setTimeout(50)
    t.equal(refused.length, 2, '128 requests of one address wait')
    for (const answer of refused) checkBusy(t, answer)
    for (const { request } of waiting) request.destroy()
  }
  await finish(held)
  await clone()
  t.same(workersIn(path), [], 'git does not run for disconnected clients')
})

t.test(
  'one git is started in each turn of the event loop, so that others are answered between',
  async (t) => {
    const { refs } = await startGitServer(t, { maxChildren: 16 })
    const turns = turnsOf(t, 'child_process')
    const lists = Array.from({ length: 40 }, (_, index) => refs(`127.0.0.${index + 2}`))
    for (const { answer } of lists) t.equal((await answer).status, 200)
    // What the server does beside may start one in the same turn.
    t.ok(new Set(turns).size >= lists.length, `${turns}`)
  },
)

t.test('fetches of one address let others connect, and begin before its next one', async (t) => {
  const { server } = await startGitServer(t)
  const { url, child } = await startInstance(t, server.options)
  const fetchNothing = rpcText('owner/demo', 'git-upload-pack', { body: '0000' })
  let [connected, answered] = [0, 0]
  const send = (localAddress: string, text: string) =>
    new Promise<number>((resolve) => {
      const to = { host: '127.0.0.1', port: Number(new URL(url).port), localAddress }
      const socket = connect(to, () => connected++).once('data', () => resolve(answered++))
      t.teardown(() => socket.destroy())
      socket.write(text, 'latin1')
    })
  // What arrives meanwhile waits in order of arrival.
  child.kill('SIGSTOP')
  const many = Array.from({ length: 300 }, () => send('127.0.0.2', fetchNothing))
  await until(() => connected === 300)
  const fetching = send('127.0.0.3', fetchNothing)
  const reading = send('127.0.0.4', requestBytes('GET', '/healthz').toString())
  await until(() => connected === 302)
  child.kill('SIGCONT')
  const [read, fetched] = await Promise.all([reading, fetching])
  t.ok(read < 250 && fetched < 250, `answered after ${read} and ${fetched} of ${many.length}`)
  await Promise.all(many)
})

t.test('a request whose client disconnects waits no longer for its turn to begin', async (t) => {
  const begin = createBeginnings(createServer(), 10_000)
  const disconnected = new AbortController()
  const order: string[] = []
  const first = begin({ address: '127.0.0.2' }).then(() => order.push('the first one begins'))
  const second = begin({ address: '127.0.0.2', signal: disconnected.signal })
  disconnected.abort(new ServiceError('malformed_request'))
  await t.rejects(
    second.finally(() => order.push('the second one leaves')),
    { code: 'malformed_request' },
  )
  await first
  t.same(order, ['the second one leaves', 'the first one begins'])
})

t.test('of the requests that wait to begin, only those of whoever sends too many are refused', async (t) => {
  const begin = createBeginnings(createServer(), DEFAULT_GIT_LIMITS.maxWait)
  let begun = 0
  // One begins, and 250 wait.
  const many = Promise.allSettled(
    Array.from({ length: 252 }, () => begin({ address: 'user 1' }).then(() => begun++)),
  )
  const before = await begin({ address: 'user 2' }).then(() => begun)
  t.ok(before < 10, `another begins after ${before} of them`)
  const outcomes = await many
  t.match(outcomes.pop(), { status: 'rejected', reason: { name: 'QueueFull' } })
  t.ok(outcomes.every(({ status }) => status === 'fulfilled'))
})

t.test('a request that waits too long gets 503', async (t) => {
  const { begin, hold } = await startGitServer(t, { maxChildren: 1, maxWait: 200 })
  const held = await hold()
  for (const service of ['fetch', 'push'] as const) {
    const waiting = begin(service, '127.0.0.3', WHOLE[service])
    waiting.request.end()
    checkBusy(t, await waiting.answer)
  }
  t.equal((await finish(held)).status, 200)
})

t.test('access to a fetch and to a list of refs is checked again when their turn has come', async (t) => {
  const metricsToken = 'm'.repeat(32)
  const { server, hold } = await startGitServer(t, { maxChildren: 1, maxWait: 60_000 }, { metricsToken })
  const { store, url } = server
  const { collaborators, repositories, tokens } = asAdministrator(store)
  const one = { owner: 'owner', name: 'one' }
  const { commits } = await server.createRepository('owner/one', { private: true })
  const { commits: openCommits } = await server.createRepository('owner/open')
  const { commits: oldCommits } = await server.createRepository('owner/old', { private: true })
  const users = new Map<string, number>()
  for (const name of ['reader', 'removed', 'revoked']) {
    users.set(name, await server.createUser(name))
    await collaborators.set(one, users.get(name) ?? 0, 'read')
  }
  await collaborators.set({ owner: 'owner', name: 'old' }, users.get('reader') ?? 0, 'read')
  const held = await hold()
  /** Returns the answers to both requests of a fetch: what they contain of the repository, or why not. */
  const ask = async (name: string, authorization: string, sha = '') => {
    const git = `${url}/owner/${name}.git`
    const fetching = beginRpc(git, 'git-upload-pack', authorization)
    fetching.request.end(`${packet(`want ${sha}\n`)}0000${packet('done\n')}`)
    const answers = await Promise.all([beginRefs(git, { authorization }).answer, fetching.answer])
    return answers.map(({ status, body }) => {
      const text = body.toString('latin1')
      return `${status} ${/ERR [^.]+|^[A-Z][^.]+|PACK/.exec(text)?.[0] ?? text.includes(sha)}`
    })
  }
  const asks = [...users.keys()].map(async (name) =>
    ask('one', basic('x', await server.createToken(name)), commits[0]),
  )
  asks.push(
    ask('open', '', openCommits[0]),
    ask('old', basic('x', await server.createToken('reader')), oldCommits[0]),
  )
  await until(async () => {
    const { body } = await server.call('GET', '/metrics', { token: metricsToken })
    return body.includes('commit_status_git_requests{service="git-upload-pack",state="waiting"} 10')
  })
  await collaborators.set(one, users.get('removed') ?? 0, null)
  await tokens.revokeAll(users.get('revoked') ?? 0)
  await repositories.setVisibility({ owner: 'owner', name: 'open' }, 'private')
  await repositories.rename({ owner: 'owner', name: 'old' }, { owner: 'owner', name: 'new' })
  await finish(held)
  const renamed = asks.pop()
  t.same(await renamed, ['200 true', '200 PACK'], 'also under a new name')
  t.same(await Promise.all(asks), [
    ['200 true', '200 PACK'],
    ...[
      [404, 'The repository does not exist, or you do not have access to it'],
      [401, 'The token is unknown, expired or revoked'],
      [401, 'This request requires a personal access token'],
    ].map(([status, reason]) => [`${status} ${reason}`, `200 ERR ${reason}`]),
  ])
})

t.test('git does not run for clients that disconnect while they wait', async (t) => {
  const { server, authorization, begin, refs, hold, clone } = await startGitServer(t, { maxChildren: 1 })
  const watched = watchServices()
  const held = await hold()
  const port = Number(new URL(server.url).port)
  const push = rpcText('owner/demo', 'git-receive-pack', { authorization, length: 4 })
  const ended = connect(port, '127.0.0.1', () => ended.end(`${push}00`))
  const whole = (['fetch', 'push'] as const).map((service) => {
    const { request } = begin(service, '127.0.0.3', WHOLE[service])
    return request.end()
  })
  const list = refs('127.0.0.3')
  await setTimeout(100)
  for (const client of [list.request, ...whole]) client.destroy()
  await setTimeout(100)
  await finish(held)
  await setTimeout(200)
  ended.destroy()
  t.equal(watched().started, 1)
  await until(() => servicesOf().length === 0)
  await clone()
})

t.test('git runs for at most the first pipelined request of a disconnected client', async (t) => {
  const { server, hold, clone } = await startGitServer(t, { maxChildren: 1 })
  const watched = watchServices()
  const held = await hold()
  const refs = 'GET /owner/demo.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n'
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1', () => socket.write(refs.repeat(20)))
  await setTimeout(100)
  socket.destroy()
  await setTimeout(100)
  await finish(held)
  await setTimeout(200)
  // The server reads no more from a client with pipelined requests, so it does not see the
  // disconnect.
  t.ok(watched().started <= 2)
  await until(() => servicesOf().length === 0)
  await clone()
})

t.test('bodies of fetches are no share of memory, and continue on disk within shares', async (t) => {
  // The bodies that are held here last until the end of the test.
  const options = { timeouts: { body: 60_000 }, spoolBytes: 2_000_000 }
  const limits = { bodyMemory: { each: 1_000, all: 1_500 } }
  const { begin, clone, hasRead, areOpen, push } = await startGitServer(t, limits, options)
  const part = (size: number) => '0'.repeat(size)
  const first = begin('fetch', '127.0.0.2', part(400_000), 500_000)
  await hasRead(first, 400_000)
  await until(() => spooledBytes() > 300_000)
  checkBusy(t, await begin('fetch', '127.0.0.2', part(300_000), 500_000).answer)
  await hasRead(begin('fetch', '127.0.0.3', part(400_000), 500_000), 400_000)
  // Nothing is left of the memory for bodies.
  await hasRead(begin('fetch', '127.0.0.4', part(1_000), 500_000), 1_000)
  await clone()
  await push()

  first.request.destroy()
  await areOpen(2)
  const second = begin('fetch', '127.0.0.2', part(400_000), 500_000)
  t.equal(await Promise.race([second.answer, hasRead(second, 400_000).then(() => 'reads')]), 'reads')
  second.request.destroy()
  await until(() => spooledBytes() < 500_000)
})

t.test('where no room is left, the bodies of who holds most give way to a small one', async (t) => {
  const options = { timeouts: { body: 60_000 }, spoolBytes: 40_000 }
  const limits = { bodyMemory: { each: 1_600, all: 3_000 } }
  const { begin, clone } = await startGitServer(t, limits, options)
  const part = (size: number) => '0'.repeat(size)
  // Four addresses take a quarter of the disk each, and others the memory.
  for (const last of [2, 3, 4, 5]) begin('fetch', `127.0.0.${last}`, part(10_000), 20_000)
  await until(() => spooledBytes() === 40_000)
  const [small, smaller] = [
    begin('fetch', '127.0.0.6', part(900), 1_000),
    begin('fetch', '127.0.0.7', part(800), 1_000),
  ]
  const outcome = Promise.race([small.answer, smaller.answer.then(() => null)])
  await setTimeout(200)
  await clone()
  const answer = await outcome
  t.ok(answer, 'the smaller one stays')
  if (answer) checkBusy(t, answer)
  const large = begin('fetch', '127.0.0.8', part(5_000), 6_000)
  await until(() => spooledBytes() === 35_000)
  t.equal(large.request.destroyed, false, 'on the disk too')
})

t.test('few bodies arrive at a time, and those of who sends most give way', async (t) => {
  const options = { timeouts: { body: 60_000 } }
  const limits = { maxBodies: { 'git-upload-pack': 4, 'git-receive-pack': 1 } }
  const { begin, hasRead, clone, push } = await startGitServer(t, limits, options)
  const open = async (address: string) => {
    const raw = begin('fetch', address, HALF_OPEN, 100)
    await hasRead(raw, 100)
    return raw
  }
  const [first, second, , other] = [
    await open('127.0.0.2'),
    await open('127.0.0.2'),
    await open('127.0.0.2'),
    await open('127.0.0.3'),
  ]
  checkBusy(t, await begin('fetch', '127.0.0.2', HALF_OPEN, 100).answer)
  await clone()
  checkBusy(t, await first.answer)
  const another = await open('127.0.0.4')
  await clone()
  checkBusy(t, await second.answer)
  const last = await open('127.0.0.5')
  checkBusy(t, await begin('fetch', '127.0.0.6', HALF_OPEN, 100).answer)
  await push()
  t.same(
    [other, another, last].map(({ request }) => request.destroyed),
    [false, false, false],
    'fetches of any number of addresses do not keep out a push',
  )
})

t.test('room for the body of a fetch is released when git has read it', async (t) => {
  // Enough for two bodies in memory and one on disk.
  const limits = { bodyMemory: { each: 1_200, all: 1_200 } }
  const { begin } = await startGitServer(t, limits, { spoolBytes: WHOLE.fetch.length })
  for (let count = 0; count < 4; count++) {
    const { request, answer } = begin('fetch', '127.0.0.2', WHOLE.fetch)
    request.end()
    t.equal((await answer).status, 200)
  }
})

t.test('room for a push is released when it ends', async (t) => {
  const { begin } = await startGitServer(t, {}, { spoolBytes: WHOLE.push.length })
  for (let count = 0; count < 3; count++) {
    const { request, answer } = begin('push', '127.0.0.2', WHOLE.push)
    request.end()
    t.not((await answer).status, 503)
  }
})

t.test('a client that sends too slowly is cut off', async (t) => {
  const window = 600
  const pace = { bytes: 500, window, first: 0 }
  const { begin, path, url, authorization } = await startGitServer(t, { pace }, { timeouts: { body: 300 } })
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main\n`
  const line = packet(command)
  const silent = beginRpc(url, 'git-receive-pack', authorization, {
    ...{ connection: 'keep-alive', 'content-length': '100' },
  })
  silent.request.flushHeaders()
  const halfway = begin('push', '127.0.0.3', line.repeat(1_000))
  const fetching = begin('fetch', '127.0.0.4', HALF_OPEN, 100)
  for (const { answer } of [silent, halfway, fetching]) {
    const { status, headers } = await answer
    t.equal(status, 408, 'what has arrived at first does not count later')
    t.equal(headers.connection, 'close')
  }
  await until(() => spooledFiles().length === 0)
  t.same(workersIn(path), [])

  const headers = { 'content-encoding': 'gzip', 'content-type': 'application/x-git-receive-pack-request' }
  const empty = request(`${url}/git-receive-pack`, { method: 'POST', headers: { authorization, ...headers } })
  const cutOff = once(empty, 'response')
  empty.on('error', () => {}).write(gzipSync('0000').subarray(0, 10))
  // A stored block of deflate without content.
  const filler = setInterval(() => empty.write(Buffer.from('000000ffff'.repeat(200), 'hex')), 20)
  t.teardown(() => clearInterval(filler))
  t.equal((await cutOff)[0].statusCode, 408, 'what adds nothing does not count')
  empty.destroy()

  const steady = begin('push', '127.0.0.5', packet(command.replace('\n', '\0report-status\n')))
  for (const end = performance.now() + 3 * window; performance.now() < end; await setTimeout(20))
    steady.request.write(line.repeat(5))
  steady.request.end('0000')
  t.equal((await steady.answer).status, 200)
})

t.test('a client may be silent for longer until its pack begins, and then not', async (t) => {
  const pace = { bytes: 500, window: 1_000, first: 5_000 }
  const { path, url, authorization } = await startGitServer(t, { pace })
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main\0report-status`
  const commands = pushBody([command], '', Buffer.alloc(0))
  const pack = Buffer.concat([commands, EMPTY_PACK])
  /** Sends the beginning of a push, and returns after how many milliseconds it was cut off. */
  const cutOff = async (start: Buffer) => {
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
    const since = performance.now()
    if (start.length > 0) request.write(start)
    else request.flushHeaders()
    t.equal((await answer).status, 408)
    return performance.now() - since
  }
  const times = await Promise.all([cutOff(Buffer.alloc(0)), cutOff(commands), cutOff(pack)])
  const [silent = 0, withoutPack = 0, withPack = 0] = times
  t.ok(silent >= pace.first && withoutPack >= pace.first, `${times}`)
  t.ok(withPack >= pace.window && withPack < Math.min(silent, withoutPack), `${times}`)

  const late = beginRpc(url, 'git-receive-pack', authorization)
  late.request.write(commands)
  // Between two checks of the pace: a pack of which some has arrived at one of them is too slow.
  await setTimeout(2.5 * pace.window)
  late.request.end(EMPTY_PACK)
  t.equal((await late.answer).status, 200)
  await until(() => spooledFiles().length === 0)
  t.same(workersIn(path), [])
})

t.test('the limits of the pace are those of the guide', async (t) => {
  const { bytes, window, first } = DEFAULT_GIT_LIMITS.pace
  const text = readFileSync('src/ops/README.md', 'utf8').replace(/\s+/g, ' ')
  t.match(
    text,
    `when less than ${bytes / 1024} KB arrive in ${window / 1000} seconds, counted after decompression, or its pack has not begun after ${first / 60_000} minutes`,
  )
})

t.test('a stopping server finishes waiting requests, unless it must stop at once', async (t) => {
  for (const how of ['finish', 'cut off'] as const) {
    const { server, hold, refs, path } = await startGitServer(t, { maxChildren: 1 })
    const held = await hold()
    held.answer.catch(() => {})
    t.teardown(held.release)
    const { answer: waiting } = refs('127.0.0.3')
    await server.call('GET', '/healthz')
    const force = new AbortController()
    const stopped = stopServing(server.app, force.signal)
    if (how === 'finish') {
      t.equal((await finish(held)).status, 200)
      t.equal((await waiting).status, 200)
    } else {
      force.abort()
      await t.rejects(waiting)
    }
    await stopped
    await until(() => workersIn(path).length === 0)
  }
})
