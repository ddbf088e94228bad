import { createHash, randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, renameSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { clearInterval, setInterval } from 'node:timers'
import { setTimeout } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { openSpool, Spool } from '../../src/git-http/spool.ts'
import { SpooledStream } from '../../src/git-http/spooled-stream.ts'
import { SharedBudget } from '../../src/schedule/shared-budget.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, commit, createCheckout, git, packedPush, tryGit } from './client.ts'
import { packOfDeltas } from './delta-pack.ts'
import { blockGit, startGitServer, WHOLE } from './git-server.ts'
import { beginRpc, namedSpoolFiles, packet, pushBody, servicesOf, spooledBytes, spooledFiles } from './raw.ts'

const MB = 1_000_000

t.test('a stream passes on what was written, however little room there is', async (t) => {
  const spool = await openSpool(temporaryFolder(t), MB)
  for (const [memoryBytes, diskBytes] of [
    [0, 0],
    [0, 300_000],
    [50_000, 0],
    [50_000, 300_000],
    [0, 100 * MB],
  ] as const) {
    const memory = { bytes: memoryBytes, budget: new SharedBudget(memoryBytes, memoryBytes) }
    const disk = { spool, budget: new SharedBudget(diskBytes, diskBytes) }
    let holds = 0
    const stream = new SpooledStream({ client: 'a', memory, disk }, () => {
      holds++
      let held = true
      return () => {
        if (held) holds--
        held = false
      }
    })
    const [sent, received] = [createHash('sha1'), createHash('sha1')]
    const write = async () => {
      for (let rest = 4 * MB; rest > 0; ) {
        const chunk = randomBytes(Math.min(rest, randomInt(1, 200_000)))
        rest -= chunk.length
        sent.update(chunk)
        if (!stream.write(chunk)) await once(stream, 'drain')
        if (randomInt(50) === 0) await setTimeout(2)
      }
      stream.end()
    }
    const read = async () => {
      let count = 0
      for await (const chunk of stream) {
        received.update(chunk)
        if (count++ % 40 === 0) await setTimeout(randomInt(3))
      }
    }
    await Promise.all([write(), read()])
    t.equal(received.digest('hex'), sent.digest('hex'), `${memoryBytes} and ${diskBytes} bytes`)
    t.equal(holds, 0)
    t.same([memory.budget.taken, disk.budget.taken], [0, 0])
    await until(() => spooledFiles().length === 0)
  }
})

t.test('what was read leaves room for others', async (t) => {
  const spool = await openSpool(temporaryFolder(t), MB)
  const memory = { bytes: 0, budget: new SharedBudget(0, 0) }
  const disk = { spool, budget: new SharedBudget(MB, MB) }
  const stream = new SpooledStream({ client: 'a', memory, disk }, () => () => {})
  t.teardown(() => stream.destroy())
  for (let written = 0; written < 5; written++) stream.write(Buffer.alloc(1_000))
  await until(() => disk.budget.taken === 5_000)
  for (let left = 5_000; left > 0; ) {
    const chunk: Buffer | null = stream.read()
    if (chunk === null) await once(stream, 'readable')
    else left -= chunk.length
  }
  t.equal(disk.budget.taken, 0)
})

t.test('what was read leaves memory for others, also while more is on disk', async (t) => {
  const spool = await openSpool(temporaryFolder(t), MB)
  const memory = { bytes: 2_000, budget: new SharedBudget(2_000, 2_000) }
  const disk = { spool, budget: new SharedBudget(9 * MB, 9 * MB) }
  const stream = new SpooledStream({ client: 'a', memory, disk }, () => () => {})
  t.teardown(() => stream.destroy())
  for (const length of [1_000, 5 * MB]) {
    stream.write(Buffer.alloc(length))
    await until(() => stream.writableLength === 0)
  }
  t.ok(memory.budget.taken > 0)
  while (disk.budget.taken > 0 && memory.budget.taken > 0) {
    if (stream.read() === null) await once(stream, 'readable')
  }
  t.same([memory.budget.taken, disk.budget.taken > 0], [0, true])
})

t.test('what nobody reads takes no more memory than its share', async (t) => {
  const spool = await openSpool(temporaryFolder(t), MB)
  const memory = { bytes: 15_000, budget: new SharedBudget(MB) }
  const disk = { spool, budget: new SharedBudget(MB) }
  const stream = new SpooledStream({ client: 'a', memory, disk }, () => () => {})
  t.teardown(() => stream.destroy())
  for (let written = 0; written < 20; written++) {
    stream.write(Buffer.alloc(10_000))
    await until(() => stream.writableLength === 0)
  }
  t.same([stream.readableLength, memory.budget.taken, disk.budget.taken], [10_000, 10_512, 190_000])
})

t.test('a stream that is destroyed at any moment leaves nothing', async (t) => {
  const spool = await openSpool(temporaryFolder(t), MB)
  const memory = { bytes: 100_000, budget: new SharedBudget(MB, MB) }
  const disk = { spool, budget: new SharedBudget(5 * MB, 5 * MB) }
  const chunk = randomBytes(100_000)
  for (let round = 0; round < 200; round++) {
    const stream = new SpooledStream({ client: 'a', memory, disk }, () => () => {}).on('error', () => {})
    const writing = setInterval(() => stream.write(chunk), 0)
    if (round % 2 === 0) stream.on('data', () => {})
    await setTimeout(randomInt(8))
    clearInterval(writing)
    stream.destroy()
  }
  await until(() => memory.budget.taken === 0 && disk.budget.taken === 0)
  await until(() => spooledFiles().length === 0)
})

t.test('without room on disk the writer waits; another error ends the stream', async (t) => {
  const memory = { bytes: 0, budget: new SharedBudget(0, 0) }
  const error = Object.assign(new Error('test'), { code: 'EDQUOT' })
  class BrokenSpool extends Spool {
    override createFile = () => Promise.reject(error)
  }
  const disk = { spool: new BrokenSpool('', MB), budget: new SharedBudget(MB, MB) }
  let holds = 0
  const open = () => new SpooledStream({ client: 'a', memory, disk }, () => () => void holds++)
  const held = open()
  held.end('text')
  t.equal(await text(held), 'text')
  t.equal(holds, 1)
  error.code = 'ERR_INVALID_ARG_TYPE'
  const broken = open()
  broken.write('text')
  t.equal((await once(broken, 'error'))[0], error)
  t.equal(disk.budget.taken, 0)
})

t.test('a push that finds no room is told so, and the next one is accepted', async (t) => {
  const { server, url, authorization, begin, push } = await startGitServer(t, {}, { spoolBytes: 2 * MB })
  const other = basic('x', await server.createToken('other'))
  await asAdministrator(server.store).collaborators.set(
    { owner: 'owner', name: 'demo' },
    await server.createUser('other'),
    'write',
  )
  const part = WHOLE.push + 'x'.repeat(0.9 * MB)
  const noRoom = /^000eunpack ok\n....ng refs\/heads\/main There is no room for this push now/
  const held = begin('push', '127.0.0.2', part)
  held.request.write('x'.repeat(part.length))
  await until(() => spooledBytes() === 2 * part.length)

  const second = begin('push', '127.0.0.2', part)
  second.request.end()
  const { status, body } = await second.answer
  t.equal(status, 200)
  t.match(body.toString(), noRoom)
  const unknown = begin('push', '127.0.0.2', packet(`shallow ${'1'.repeat(40)}`).repeat((0.9 * MB) / 52))
  const refusal = await unknown.answer
  t.equal(refusal.status, 503, 'of which refs the report must be is not known')
  const wait = Number(refusal.headers['retry-after'])
  t.ok(wait >= 10 && wait <= 150)
  t.match(refusal.body.toString(), /^There is no room for this push now/)
  unknown.request.destroy()

  const large = beginRpc(url, 'git-receive-pack', authorization, { 'content-length': String(2 * MB + 1) })
  large.request.flushHeaders()
  t.equal((await large.answer).status, 413, 'no push may be larger than all of the room')
  large.request.destroy()

  const checkout = await createCheckout(t, url)
  await commit(checkout, 1.9 * MB)
  const args = ['push', '--quiet', 'origin', 'HEAD:refs/heads/large']
  const config = { 'http.postBuffer': '65536' }
  const refused = await tryGit(checkout, args, { authorization, config })
  t.match(refused.stderr, /\[remote rejected\] HEAD -> large \(There is no room for this push now/)
  t.match(
    await tryGit(checkout, args, { authorization: other, config }),
    { code: 0 },
    'the user who holds most gives way to another one, who may use all of the room',
  )
  held.request.end()
  t.match((await held.answer).body.toString(), noRoom)
  await until(() => spooledFiles().length === 0)
  await push()
})

t.test('a push on which git works does not give way', async (t) => {
  const { server, url, path, authorization } = await startGitServer(t, {}, { spoolBytes: 10 * MB })
  const other = basic('x', await server.createToken('other'))
  await asAdministrator(server.store).collaborators.set(
    { owner: 'owner', name: 'demo' },
    await server.createUser('other'),
    'write',
  )
  const { bytes, id } = await packedPush(t, url, 6 * MB)
  const release = blockGit(t)
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  request.end(bytes)
  await until(() => servicesOf().length === 1)
  const late = beginRpc(url, 'git-receive-pack', other)
  late.request.end(bytes)
  t.match((await late.answer).body.toString(), /ng refs\/heads\/raw There is no room/)
  release()
  t.match((await answer).body.toString(), /unpack ok/)
  t.equal(await git(path, ['rev-parse', 'raw']), id)
})

t.test('the bodies of fetches take no room of pushes', async (t) => {
  const { url, authorization } = await startGitServer(
    t,
    {},
    { spoolBytes: 10 * MB, timeouts: { body: 120_000 } },
  )
  const { bytes } = await packedPush(t, url, 8 * MB)
  const fetching = beginRpc(url, 'git-upload-pack', '')
  fetching.request.on('error', () => {}).write(randomBytes(5 * MB))
  await until(() => spooledBytes() > 4 * MB)
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  request.end(bytes)
  t.match((await answer).body.toString(), /unpack ok/)
  fetching.request.destroy()
  await t.rejects(fetching.answer)
})

t.test('a compressed fetch takes only what was sent until git has a place for it', async (t) => {
  const limits = { maxChildren: 2, maxBytes: 4 * MB, bodyMemory: { each: 1, all: 1 } }
  const { url, refs } = await startGitServer(t, limits)
  const release = blockGit(t, 'git-upload-pack')
  const busy = refs('127.0.0.2')
  await until(() => servicesOf().length === 1)
  const fetch = (body: Buffer) => {
    const { request, answer } = beginRpc(url, 'git-upload-pack', '', { 'content-encoding': 'gzip' })
    request.end(body)
    return answer
  }
  // git reads the first packet, which asks for nothing.
  const bodies = [3, 5].map((size) => gzipSync(Buffer.alloc(size * MB, '0')))
  const cut = gzipSync(randomBytes(100)).subarray(0, 60)
  const waiting = [...bodies, cut, Buffer.from('not zipped')].map(fetch)
  const sent = bodies.reduce((sum, { length }) => sum + length, 0)
  await until(() => spooledBytes() >= sent)
  t.ok(spooledBytes() < sent + 1_000, 'they wait as they were sent')
  release()
  t.equal((await busy.answer).status, 200)
  const answers = await Promise.all(waiting)
  t.same(
    answers.map(({ status }) => status),
    [200, 413, 400, 400],
  )
  await until(() => spooledBytes() === 0 && servicesOf().length === 0)
})

t.test('two pushes that have no room together both complete if they are tried again', async (t) => {
  for (const share of [0.6, 0.9]) {
    const room = 4 * MB
    const { server, path, url, authorization } = await startGitServer(t, {}, { spoolBytes: room })
    const other = basic('x', await server.createToken('other'))
    await asAdministrator(server.store).collaborators.set(
      { owner: 'owner', name: 'demo' },
      await server.createUser('other'),
      'write',
    )
    const pushes = await Promise.all(['one', 'two'].map((name) => packedPush(t, url, share * room, name)))
    let refused = 0
    const pushOnce = async (bytes: Buffer, caller: string) => {
      const { request, answer } = beginRpc(url, 'git-receive-pack', caller)
      let isAnswered = false
      const done = answer.finally(() => {
        isAnswered = true
      })
      for (let sent = 0; sent < bytes.length && !isAnswered; sent += MB / 5, await setTimeout(20))
        request.write(bytes.subarray(sent, sent + MB / 5))
      request.end()
      return await done
    }
    const push = async (index: number, caller: string) => {
      const bytes = pushes[index]?.bytes ?? Buffer.alloc(0)
      for (;;) {
        const { status, body } = await pushOnce(bytes, caller)
        t.equal(status, 200)
        if (/....ok refs/.test(body.toString())) return
        t.match(body.toString(), /ng refs.* There is no room/)
        refused++
        // A hundredth of the time that a person takes, as for the push.
        await setTimeout(100 + 1_400 * Math.random())
      }
    }
    await Promise.all([push(0, authorization), push(1, other)])
    t.ok(refused > 0, `${refused} times there was no room`)
    for (const [index, name] of ['one', 'two'].entries())
      t.equal(await git(path, ['rev-parse', name]), pushes[index]?.id)
  }
})

t.test(
  'while the disk cannot be written, pushes are refused, fetches go on, and the server is not ready',
  async (t) => {
    const { server, path, url, authorization, clone, push } = await startGitServer(t)
    const [folder, away] = [join(server.dataDir, 'spool'), join(server.dataDir, 'away')]
    t.equal((await server.call('GET', '/readyz')).status, 200)
    const checkout = await createCheckout(t, url)
    await commit(checkout, 5 * MB)
    await git(checkout, ['push', '--quiet', path, 'HEAD:refs/heads/large'])
    renameSync(folder, away)
    const refused = await tryGit(checkout, ['push', 'origin', 'HEAD:refs/heads/other'], { authorization })
    t.match(refused.stderr, /\[remote rejected\] HEAD -> other \(There is no room/)
    await clone()
    await setTimeout(1_100)
    const { status, json } = await server.call('GET', '/readyz')
    t.equal(status, 503)
    t.match(json.error, /pushes cannot be received/)
    renameSync(away, folder)
    await push()
    await setTimeout(1_100)
    t.equal((await server.call('GET', '/readyz')).status, 200)
  },
)

t.test('a push that is refused frees its room while it still arrives', async (t) => {
  const { begin } = await startGitServer(t, {}, { spoolBytes: 2 * MB })
  const part = WHOLE.push + 'x'.repeat(0.8 * MB)
  const more = 'x'.repeat(0.3 * MB)
  for (const _ of [1, 2]) begin('push', '127.0.0.2', part)
  const refused = begin('push', '127.0.0.2', WHOLE.push + more)
  await until(() => spooledBytes() === 2 * part.length + WHOLE.push.length + more.length)
  refused.request.write(more)
  await until(() => spooledBytes() === 2 * part.length)
  const next = begin('push', '127.0.0.2', WHOLE.push + more)
  next.request.end()
  t.notMatch((await next.answer).body.toString(), /There is no room/)
})

t.test('a killed server leaves no files, and those of a power cut are removed at the start', async (t) => {
  const { options, createRepository, createToken } = await startServer(t)
  const { path } = await createRepository('owner/demo')
  const folder = join(options.dataDir, 'spool')
  const authorization = basic('x', await createToken('owner'))
  writeFileSync(join(folder, 'left'), '')
  const { url, child } = await startInstance(t, options)
  t.same(namedSpoolFiles(options.dataDir), [])
  t.equal(statSync(folder).mode & 0o777, 0o700)
  const { request, answer } = beginRpc(`${url}/owner/demo.git`, 'git-receive-pack', authorization)
  request.on('error', () => {}).write(randomBytes(3 * MB))
  await until(() => spooledFiles(child.pid).length > 0)
  t.same(namedSpoolFiles(options.dataDir), [])
  child.kill('SIGKILL')
  await t.rejects(answer)
  t.same(namedSpoolFiles(options.dataDir), [])

  const old = join(path, 'objects/tmp_objdir-incoming-old')
  const young = join(path, 'objects/tmp_objdir-incoming-young')
  for (const name of [old, young]) mkdirSync(join(name, 'pack'), { recursive: true })
  utimesSync(old, 1, 1)
  await startInstance(t, options)
  await until(() => !existsSync(old))
  t.ok(existsSync(young), 'another process may be receiving it')
})

t.test('git refuses a small push that would take much memory, and says why', async (t) => {
  const { url, authorization, push } = await startGitServer(t)
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/bomb`
  request.end(pushBody([command], ' report-status side-band-64k', packOfDeltas(300 * MB, 1, 65_536)))
  const { status, body } = await answer
  t.equal(status, 200)
  t.match(body.toString(), /attempting to allocate \d+ over limit/)
  t.match(body.toString(), /unpack (?!ok)/)
  await push()
})
