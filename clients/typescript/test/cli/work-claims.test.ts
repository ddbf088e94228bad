import { rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { listenLocally } from '../../../../test/helpers/free-port.ts'
import { startServer } from '../../../../test/helpers/server.ts'
import { findProcesses } from '../../src/cli/work/processes.ts'
import type { Running } from '../helpers/command-line.ts'
import { eventually, openWorkPlace, type WorkPlace } from '../helpers/working.ts'

const server = await startServer(t)
await server.createUser('acme')
t.setTimeout(600_000)
t.jobs = 4

/** Milliseconds in which the claim of a worker of these tests ends. */
const CLAIM = 10_000
/** Prints its run, starts a child in a session of its own, and goes on until the file `GO` is there. */
const LONG = `echo "run $COMMIT_STATUS_RUN."
  setsid sleep 300 > /dev/null 2>&1 &
  while [ ! -e "$GO" ]; do sleep 0.2; done`

interface LongOptions {
  args?: string[]
  folder?: string
  timeout?: string
  /** Whether the worker has a process of its own. */
  alone?: boolean
}

/** Starts a worker whose command runs until `go` is called. */
async function startLong(
  t: Test,
  place: WorkPlace,
  { args = [], folder = place.folder, timeout = '2s', alone = false }: LongOptions = {},
) {
  const file = join(temporaryFolder(t), 'go')
  const options = { folder, env: { GO: file, COMMIT_STATUS_TIMEOUT: timeout } }
  const worker = alone ? place.workAlone(args, options) : place.work(args, options)
  const run = await nextRun(worker)
  const start = () => place.work(args, options)
  return { worker, run, start, go: () => writeFileSync(file, ''), pids: findProcesses({ run }) }
}

/** Waits until a command says its run. */
async function nextRun({ finished, output }: Running, not = ''): Promise<string> {
  const runs = () => Array.from(output.stdout.matchAll(/run (\S+)\./g), ([, id = '']) => id)
  const next = () => runs().find((id) => id !== not)
  let hasEnded = false
  void finished.then(() => {
    hasEnded = true
  })
  await eventually(() => next() !== undefined || hasEnded)
  return next() ?? Promise.reject(new Error(`the worker has ended: ${output.stderr}`))
}

const gone = (run: string) => eventually(() => findProcesses({ run }).length === 0)
const areGone = (pids: readonly number[], run: string) =>
  eventually(() => !findProcesses({ run }).some((pid) => pids.includes(pid)))

async function test(name: string, body: (t: Test, place: WorkPlace) => Promise<void>) {
  t.test(name, { buffered: true }, async (t) => {
    const repository = `acme/${name.replace(/\W+/g, '-').slice(0, 40)}`
    await body(t, await openWorkPlace(t, server, repository))
  })
}

test('whoever asks for another run ends the one in progress', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run, go, pids } = await startLong(t, place)
  t.ok(pids.length >= 2, 'the command and what it started')
  t.equal(await place.result(sha), 'pending: running')
  await place.request(sha)
  const next = await nextRun(worker, run)
  t.not(next, run)
  await gone(run)
  go()
  t.match(await place.settled(sha), /^success: passed in /)
  await gone(next)
  worker.kill('SIGTERM')
  t.match(await worker.finished, { code: 0, stderr: /not reported: This context is "pending"/ })
  t.strictSame(place.jobs(), [])
})

test('a result that somebody else reports ends the run', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run } = await startLong(t, place)
  await server.report(
    place.name,
    sha,
    { state: 'failure', context: 'ci', description: 'by hand' },
    place.token,
  )
  await gone(run)
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
  t.equal(await place.result(sha), 'failure: by hand')
})

test('what a killed worker left is ended and run again', async (t, place) => {
  const sha = place.push('main', LONG)
  const logs = join(temporaryFolder(t), 'logs')
  const { worker, run, pids, start, go } = await startLong(t, place, { alone: true, args: ['--logs', logs] })
  worker.kill('SIGKILL')
  await worker.finished
  t.ok(findProcesses({ run }).length >= 2, 'its command is still running')
  const again = start()
  t.equal(await nextRun(again), run, 'under the same run')
  await areGone(pids, run)
  go()
  t.match(await place.settled(sha), /^success/)
  again.kill('SIGTERM')
  t.equal((await again.finished).code, 0)
  t.strictSame(place.jobs(), [])
})

test('what a killed worker left is kept if the next one ends in an outage', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run, start, go } = await startLong(t, place, { alone: true })
  worker.kill('SIGKILL')
  await worker.finished
  await place.proxy.close()
  const again = start()
  await again.printed('no answer')
  again.kill('SIGTERM')
  t.equal((await again.finished).code, 0)
  t.strictSame(place.jobs(), [run])
  await place.proxy.open()
  go()
  const last = start()
  t.match(await place.settled(sha), /^success/)
  last.kill('SIGTERM')
  t.equal((await last.finished).code, 0)
  t.strictSame(place.jobs(), [])
})

test('what a killed worker left is fetched again, up to three times', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, start, go } = await startLong(t, place, { alone: true })
  worker.kill('SIGKILL')
  await worker.finished
  rmSync(join(place.folder, 'cache'), { recursive: true })
  place.proxy.always(/^GET .*git-upload-pack/, { status: 503 })
  const again = start()
  await again.printed('cannot be fetched: ')
  place.proxy.always(/^GET .*git-upload-pack/, 'pass')
  go()
  t.match(await place.settled(sha), /^success/)
  again.kill('SIGTERM')
  t.equal((await again.finished).code, 0)
})

test('what a killed worker left on a branch that has moved on is an error', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run, start, go } = await startLong(t, place, { alone: true })
  worker.kill('SIGKILL')
  await worker.finished
  const next = place.push('main', LONG)
  go()
  const again = start()
  t.equal(await place.settled(sha), 'error: the worker was killed')
  t.match(await place.settled(next), /^success/)
  await gone(run)
  again.kill('SIGTERM')
  t.equal((await again.finished).code, 0)
})

test('what a killed worker left waits while it is refused what waits', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, go } = await startLong(t, place, { alone: true })
  worker.kill('SIGKILL')
  await worker.finished
  go()
  // It watches another repository, so it has no list of this one yet.
  const other = await openWorkPlace(t, server, 'acme/other')
  // What the start asks, the claim, and what waits in the other repository.
  other.proxy.plan('pass', 'pass', 'pass', 'pass', { status: 403 }, { status: 403 })
  const again = other.work([], { folder: place.folder, command: ['true'] })
  t.match(await place.settled(sha), /^success/)
  again.kill('SIGTERM')
  t.equal((await again.finished).code, 0)
  const isRefused = ({ url, status }: { url: string; status: number }) =>
    url.includes(place.name) && status === 403
  t.ok(other.proxy.passages.some(isRefused))
  t.strictSame(place.jobs(), [])
})

test('what a killed worker left is dropped if somebody else has it', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run, start } = await startLong(t, place, { alone: true })
  worker.kill('SIGKILL')
  await worker.finished
  await server.report(
    place.name,
    sha,
    { state: 'failure', context: 'ci', description: 'by hand' },
    place.token,
  )
  const again = start()
  await gone(run)
  await eventually(() => place.jobs().length === 0)
  again.kill('SIGTERM')
  t.equal((await again.finished).code, 0)
  t.equal(await place.result(sha), 'failure: by hand')
})

test('a worker that stood still loses its commit to another one', async (t, place) => {
  const sha = place.push('main', LONG)
  const stalled = await startLong(t, place, { alone: true })
  stalled.worker.kill('SIGSTOP')
  const start = performance.now()
  const other = await startLong(t, place, { folder: join(temporaryFolder(t), 'other') })
  t.ok(performance.now() - start > CLAIM - 2_500, 'not before the claim has ended')
  other.go()
  const result = await place.settled(sha)
  t.match(result, /^success/)
  other.worker.kill('SIGTERM')
  t.equal((await other.worker.finished).code, 0)
  stalled.worker.kill('SIGCONT')
  await gone(stalled.run)
  stalled.worker.kill('SIGTERM')
  t.match(await stalled.worker.finished, {
    code: 0,
    stderr: /not reported: This context has a result, "success"/,
  })
  t.equal(await place.result(sha), result)
})

test('an outage that outlasts the claim ends nothing', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run, go, pids } = await startLong(t, place)
  await place.proxy.close()
  await setTimeout(CLAIM + 2_000)
  t.strictSame(findProcesses({ run }).filter((pid) => pids.includes(pid)).length > 1, true)
  go()
  await gone(run)
  t.equal(await place.result(sha), 'pending: running')
  await place.proxy.open()
  t.match(await place.settled(sha), /^success/)
  await worker.printed('the service answers again')
  worker.kill('SIGTERM')
  t.match(await worker.finished, {
    code: 0,
    stderr: /no answer from the service.*\n.*the service answers again/s,
  })
})

test('after an outage in which another worker took over, nothing is reported', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run } = await startLong(t, place)
  await place.proxy.close()
  const env = { COMMIT_STATUS_URL: server.url }
  const folder = join(temporaryFolder(t), 'other')
  const other = place.work(['--once'], { folder, env, command: ['sh', '-c', 'exit 7'] })
  const { code, stderr } = await other.finished
  t.equal(code, 0, stderr)
  t.match(await place.result(sha), /^pending/, 'there is nothing to do while the claim holds')
  await setTimeout(CLAIM)
  t.equal((await place.work(['--once'], { folder, env, command: ['sh', '-c', 'exit 7'] }).finished).code, 1)
  await place.proxy.open()
  await gone(run)
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
  t.match(await place.result(sha), /^failure: exit code 7/)
})

test('the first signal lets the command finish, and claims nothing more', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, go } = await startLong(t, place, { alone: true })
  const other = place.push('other', 'true')
  worker.kill('SIGTERM')
  await setTimeout(500)
  go()
  t.match(await worker.finished, { code: 0, stderr: /SIGTERM: waits/ })
  t.match(await place.result(sha), /^success/)
  t.equal(await place.result(other), undefined)
})

test('with --once, it ends only after the command', async (t, place) => {
  for (const ending of ['a refusal', 'a signal']) {
    const sha = place.push('main', LONG)
    const answered = Promise.withResolvers<void>()
    // After what the start asks, the first question for what waits.
    place.proxy.plan('pass', 'pass', { status: 403, heldUntil: answered.promise })
    const { worker, run, go } = await startLong(t, place, { args: ['--once'], timeout: '60s' })
    if (ending === 'a signal') worker.kill('SIGTERM')
    else answered.resolve()
    await worker.printed(ending === 'a signal' ? 'waits for' : 'refuses')
    await setTimeout(200)
    go()
    const { code, stderr } = await worker.finished
    t.equal(code, ending === 'a signal' ? 0 : 5, stderr)
    answered.resolve()
    t.match(await place.result(sha), /^success/, ending)
    t.strictSame([findProcesses({ run }), place.jobs()], [[], []])
  }
})

test('the second signal ends it', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run } = await startLong(t, place, { alone: true })
  worker.kill('SIGINT')
  // npx passes on what a terminal has sent to both.
  worker.kill('SIGINT')
  await setTimeout(1_000)
  t.equal(await place.result(sha), 'pending: running')
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 128 + 15)
  t.equal(await place.result(sha), 'error: cancelled')
  t.strictSame(findProcesses({ run }), [])
  t.strictSame(place.jobs(), [])
})

test('--cancel ends a command whose branch has moved on', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, run, go } = await startLong(t, place, { args: ['--cancel'] })
  const next = place.push('main', LONG)
  t.equal(await place.settled(sha), 'error: cancelled: main has moved on')
  await gone(run)
  go()
  t.match(await place.settled(next), /^success/)
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
})

test('without --cancel it goes on', async (t, place) => {
  const sha = place.push('main', LONG)
  const { worker, go } = await startLong(t, place)
  const next = place.push('main', 'true')
  await setTimeout(1_000)
  t.equal(await place.result(sha), 'pending: running')
  go()
  t.match(await place.settled(sha), /^success/)
  t.match(await place.settled(next), /^success/)
  worker.kill('SIGTERM')
  await worker.finished
})

test('a server that does not know claims gets no command', async (t, place) => {
  const sha = place.push('main', 'echo started')
  const old = http.createServer(async (request, response) => {
    const { method = '', url = '', headers } = request
    const body = method === 'POST' ? await buffer(request) : null
    const own = Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)])
    const sent = own.filter(([name]) => !['host', 'connection', 'content-length'].includes(name))
    const answer = await fetch(server.url + url, {
      method,
      headers: sent,
      body: body && new Uint8Array(body),
    })
    const bytes = Buffer.from(await answer.arrayBuffer())
    const { claimed_until: _, ...status } = answer.status === 201 ? JSON.parse(bytes.toString()) : {}
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    response.end(answer.status === 201 ? JSON.stringify(status) : bytes)
  })
  const port = await listenLocally(old)
  t.teardown(() => {
    old.close()
    old.closeAllConnections()
  })
  const worker = place.work([], { env: { COMMIT_STATUS_URL: `http://127.0.0.1:${port}` } })
  t.match(await worker.finished, {
    code: 5,
    stdout: '',
    stderr: /the server is too old: work needs version 1\.5\.0/,
  })
  t.equal(await place.result(sha), 'pending: running')
})
