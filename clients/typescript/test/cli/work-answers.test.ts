import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { git } from '../../../../test/helpers/git.ts'
import { startServer } from '../../../../test/helpers/server.ts'
import { findProcesses } from '../../src/cli/work/processes.ts'
import type { Running } from '../helpers/command-line.ts'
import { eventually, openWorkPlace, quickWorker, type WorkPlace } from '../helpers/working.ts'

/** Answers that are lost, late, refused or missing while a worker waits for them. */
const server = await startServer(t)
await server.createUser('acme')
t.setTimeout(600_000)
t.jobs = 4

/** Writes down its run, and goes on until the file `GO` is there. */
const SCRIPT = `echo "$COMMIT_STATUS_RUN" >> "$RUNS"
  while [ ! -e "$GO" ]; do sleep 0.05; done`

/** Starts workers whose commands run until `go` is called. */
function openJobs(t: Test, place: WorkPlace) {
  const folder = temporaryFolder(t)
  const [go, runs] = [join(folder, 'go'), join(folder, 'runs')]
  const read = () => (existsSync(runs) ? readFileSync(runs, 'utf8').trim().split('\n') : [])
  const environment = (timeout: string) => ({ GO: go, RUNS: runs, COMMIT_STATUS_TIMEOUT: timeout })
  return {
    start: (args: string[] = [], timeout = '2s') => place.work(args, { env: environment(timeout) }),
    /** In a process of its own, which does not go on asking after its end. */
    startAlone: (timeout = '2s') => place.workAlone([], { env: environment(timeout) }),
    go: () => writeFileSync(go, ''),
    /** The runs of the commands that were started. */
    runs: read,
    started: (count = 1) => eventually(() => read().length >= count),
  }
}

const reportsOf = (sha: string) => new RegExp(`^POST /api/.*/statuses/${sha}`)

/** Returns the reports on a commit that have come to the proxy. */
function reports({ proxy }: WorkPlace, sha: string) {
  return proxy.passages
    .filter(({ method, url }) => reportsOf(sha).test(`${method} ${url}`))
    .map(({ body, status }) => ({ ...JSON.parse(body), status }))
}

/** Sends the two signals that end a worker, and returns how it ended and after how many milliseconds. */
async function endTwice({ kill, finished, printed }: Running) {
  kill('SIGTERM')
  await printed('waits for what is running')
  await setTimeout(600)
  const start = performance.now()
  kill('SIGTERM')
  return { ...(await finished), after: performance.now() - start }
}

async function test(name: string, body: (t: Test, place: WorkPlace) => Promise<void>) {
  t.test(name, { buffered: true }, async (t) => {
    await body(t, await openWorkPlace(t, server, `acme/${name.replace(/\W+/g, '-').slice(0, 40)}`))
  })
}

test('a request on the first of two pages is seen', async (t, place) => {
  const shas = Array.from({ length: 35 }, (_, index) =>
    place.push(`old/${index + 10}`, 'true', { at: 1_700_000_000 }),
  )
  const [first = ''] = shas
  const worker = place.work()
  await worker.printed(`of old/44`)
  await place.request(first)
  t.match(await place.settled(first), /^success/)
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
})

test('a claim whose answer is lost is sent again, and the command runs once', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const jobs = openJobs(t, place)
  place.proxy.always(reportsOf(sha), 'reset')
  const worker = jobs.start(['--once'], '10s')
  await eventually(() => reports(place, sha).length >= 3)
  t.equal(await place.result(sha), 'pending: running', 'the server has stored it')
  t.strictSame(jobs.runs(), [], 'nothing runs before the answer')
  place.proxy.always(reportsOf(sha), 'pass')
  jobs.go()
  t.equal((await worker.finished).code, 0)
  t.match(await place.result(sha), /^success/)
  const [run] = jobs.runs()
  t.strictSame(jobs.runs(), [run])
  const sent = reports(place, sha)
  t.ok(sent.every((report) => report.run === run && report.claim === 10))
  t.strictSame([...new Set(sent.map(({ status }) => status))], [0, 201], 'the retry is stored')
})

test('a result whose answer is lost is sent again', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const jobs = openJobs(t, place)
  const worker = jobs.start(['--once'], '10s')
  await jobs.started()
  place.proxy.always(reportsOf(sha), 'reset')
  jobs.go()
  t.match(await place.settled(sha), /^success/)
  await eventually(() => reports(place, sha).filter(({ state }) => state === 'success').length >= 2)
  t.strictSame(place.jobs(), jobs.runs(), 'kept until it is answered')
  place.proxy.always(reportsOf(sha), 'pass')
  t.equal((await worker.finished).code, 0)
  t.match(reports(place, sha).at(-1), { state: 'success', status: 201 })
  t.strictSame(place.jobs(), [])
})

test('a claim that is delivered after the result changes nothing', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const jobs = openJobs(t, place)
  const delivery = Promise.withResolvers<void>()
  place.proxy.always(reportsOf(sha), { heldUntil: delivery.promise })
  const worker = jobs.start(['--once'], '3s')
  await eventually(() => reports(place, sha).length >= 1)
  place.proxy.always(reportsOf(sha), 'pass')
  jobs.go()
  t.equal((await worker.finished).code, 0)
  const result = await place.result(sha)
  t.match(result, /^success/)
  delivery.resolve()
  await eventually(() => reports(place, sha)[0]?.status === 409)
  t.equal(await place.result(sha), result)
})

test('a request between a result and the next list is seen, though the list is the same', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const jobs = openJobs(t, place)
  const worker = jobs.start()
  await jobs.started()
  const lists = () => place.proxy.passages.filter(({ url }) => url.includes('/awaiting'))
  const before = lists().length
  await eventually(() =>
    lists()
      .slice(before)
      .some(({ status }) => status === 304),
  )
  const answered = Promise.withResolvers<void>()
  const count = lists().length
  place.proxy.always(/awaiting/, { heldUntil: answered.promise })
  await eventually(() => lists().length > count)
  jobs.go()
  await worker.printed('passed in')
  await place.request(sha)
  place.proxy.always(/awaiting/, 'pass')
  answered.resolve()
  await jobs.started(2)
  t.match(await place.settled(sha), /^success/)
  t.ok(
    lists()
      .slice(count, count + 2)
      .every(({ status }) => status === 304),
  )
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
})

test('a worker that waits for its first answer ends at the first signal', async (t, place) => {
  place.proxy.always(/awaiting/, 'hang')
  const worker = openJobs(t, place).startAlone('60s')
  await place.proxy.reached(1)
  const start = performance.now()
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
  t.ok(performance.now() - start < 20_000)
})

test('one that waits for the answer to a claim ends at the second signal', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  place.proxy.always(reportsOf(sha), 'hang')
  const worker = openJobs(t, place).startAlone('60s')
  await eventually(() => reports(place, sha).length > 0)
  const { code, after } = await endTwice(worker)
  t.equal(code, 128 + 15)
  t.ok(after < 20_000, `${after} ms`)
})

test('a result that was refused is kept for the next worker at the second signal', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const jobs = openJobs(t, place)
  const worker = jobs.start()
  await jobs.started()
  place.proxy.always(reportsOf(sha), { status: 403 })
  jobs.go()
  await eventually(() => reports(place, sha).some(({ state }) => state === 'success'))
  t.match(await endTwice(worker), { code: 128 + 15, stderr: /not reported, so the next worker .*: success/ })
  t.strictSame(place.jobs(), jobs.runs())
  place.proxy.always(reportsOf(sha), 'pass')
  t.equal((await jobs.start(['--once'], '10s').finished).code, 0)
  t.match(await place.result(sha), /^success/)
  t.equal(new Set(jobs.runs()).size, 1, 'under the same run')
  t.strictSame(place.jobs(), [])
})

/** Kills a worker, and starts one of another repository that finishes its job but gets no list for it. */
async function leaveJob(t: Test, place: WorkPlace, failure: 'hang' | { status: number }) {
  const sha = place.push('main', SCRIPT)
  const jobs = openJobs(t, place)
  const killed = jobs.startAlone()
  await jobs.started()
  killed.kill('SIGKILL')
  await killed.finished
  const other = await openWorkPlace(t, server, `${place.name}-other`)
  const list = new RegExp(`^GET .*${place.name}/awaiting`)
  other.proxy.always(list, failure)
  const worker = other.work([], { folder: place.folder, env: { COMMIT_STATUS_TIMEOUT: '60s' } })
  const isList = ({ method, url }: { method: string; url: string }) => list.test(`${method} ${url}`)
  await eventually(() => other.proxy.passages.some(isList))
  return { sha, worker, other, run: jobs.runs()[0] ?? '' }
}

test('--once ends with 5 if a claim is refused, and says why', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const other = place.push('other', 'true')
  place.proxy.always(reportsOf(sha), { status: 403 })
  const { code, stderr } = await openJobs(t, place).start(['--once'], '10s').finished
  t.match({ code, stderr }, { code: 5, stderr: /: the server refuses: out of order\n/ })
  t.equal(await place.result(sha), undefined)
  t.match(await place.result(other), /^success/)
})

test('--once ends with 5 if a commit is lost to refusals, and says why', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const jobs = openJobs(t, place)
  const worker = jobs.start(['--once'], '10s')
  await jobs.started()
  place.proxy.always(reportsOf(sha), { status: 403 })
  t.match(await worker.finished, { code: 5, stderr: /main .*: not reported: out of order\n/ })
  t.strictSame([place.jobs(), findProcesses({ run: jobs.runs()[0] ?? '' })], [[], []])
})

test('--once tries again what could not be fetched, also while it waits for another repository', async (t, place) => {
  const other = `${place.name}-other`
  await server.createRepository(other, { commits: 0 })
  const sha = place.push('main', 'true')
  const blob = git(place.path, 'rev-parse', `${sha}:ci.sh`)
  rmSync(join(place.path, 'objects', blob.slice(0, 2), blob.slice(2)))
  const failed = Promise.withResolvers<void>()
  const lists = new RegExp(`^GET .*/${other}/awaiting`)
  const started = Promise.withResolvers<void>()
  place.proxy.always(lists, { heldUntil: started.promise })
  const worker = place.work(['--repo', other, '--once'], { env: { COMMIT_STATUS_TIMEOUT: '60s' } })
  // What the start asks.
  await eventually(() => place.proxy.passages.some(({ method, url }) => lists.test(`${method} ${url}`)))
  place.proxy.always(lists, { heldUntil: failed.promise })
  started.resolve()
  await worker.printed('cannot be fetched')
  await eventually(() => place.jobs().length === 0)
  failed.resolve()
  t.equal((await worker.finished).code, 1)
  t.match(await place.result(sha), /^error/)
})

test('a fetch of which nothing comes is given up soon, and tried again', async (t, place) => {
  const sha = place.push('main', 'true')
  place.proxy.always(/^POST .*git-upload-pack/, 'hang')
  const worker = place.work(['--once'])
  await eventually(() => place.proxy.passages.some(({ url }) => url.endsWith('/git-upload-pack')))
  place.proxy.always(/^POST .*git-upload-pack/, 'pass')
  t.equal((await worker.finished).code, 0)
  t.match(await place.result(sha), /^success/)
})

test('the first signal gives up a fetch', async (t, place) => {
  const sha = place.push('main', 'true')
  // One of several commits that fails by itself is followed by one of the first alone.
  place.push('other', 'true')
  place.proxy.always(/^POST .*git-upload-pack/, 'hang')
  const fetches = () => place.proxy.passages.filter(({ url }) => url.endsWith('/git-upload-pack'))
  const worker = place.work()
  await eventually(() => fetches().length > 0)
  worker.kill('SIGTERM')
  const { code, stderr } = await worker.finished
  t.equal(code, 0)
  t.equal(fetches().length, 1)
  t.notMatch(stderr, 'cannot be fetched')
  t.equal(await place.result(sha), undefined)
})

test('a job that cannot be written down is not blamed on the server', async (t, place) => {
  const sha = place.push('main', SCRIPT)
  const written = Promise.withResolvers<void>()
  // After what the start asks, the first question for what waits.
  place.proxy.plan('pass', 'pass', { heldUntil: written.promise })
  const worker = openJobs(t, place).start(['--once'], '10s')
  await place.proxy.reached(3)
  const folder = join(place.folder, 'jobs')
  rmSync(folder, { recursive: true })
  writeFileSync(folder, '')
  written.resolve()
  const { code, stderr } = await worker.finished
  t.match({ code, stderr }, { code: 5, stderr: /: cannot write down a job: E[A-Z]+: / })
  t.notMatch(stderr, 'refuses')
  t.equal(await place.result(sha), undefined)
})

test('a job that cannot be written down leaves nothing', async (t, place) => {
  const sha = place.push('main', 'true')
  t.equal((await place.work(['--once']).finished).code, 0)
  await place.request(sha)
  // A folder can be created, and a file, which stays empty.
  const limited = ['sh', '-c', 'ulimit -f 0; exec "$@"', 'sh', ...quickWorker]
  const { code, stderr } = await place.workAlone(['--once'], { program: limited }).finished
  t.match({ code, stderr }, { code: 5, stderr: /: cannot write down a job: EFBIG: / })
  t.strictSame(place.jobs(), [])
})

test('each repository has an outage of its own', async (t, place) => {
  const other = `${place.name}-other`
  await server.createRepository(other)
  const list = (name: string) => new RegExp(`^GET .*/${name}/awaiting`)
  place.proxy.always(list(other), { status: 503 })
  const worker = place.work(['--repo', other], { env: { COMMIT_STATUS_TIMEOUT: '5s' } })
  const notice = `commit-status: ${other}: no answer from the service, still trying: `
  await worker.printed(notice)
  const lists = () =>
    place.proxy.passages.filter(({ method, url }) => list(place.name).test(`${method} ${url}`)).length
  const count = lists()
  await eventually(() => lists() > count + 2)
  t.notMatch(worker.output.stderr, 'answers again')
  place.proxy.always(list(other), 'pass')
  await worker.printed(`commit-status: ${other}: the service answers again\n`)
  t.equal(worker.output.stderr.split('no answer').length, 2)
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
})

test('a second signal ends what waits for a list that is refused', async (t, place) => {
  const { sha, worker, run } = await leaveJob(t, place, { status: 403 })
  t.equal((await endTwice(worker)).code, 128 + 15)
  t.equal(await place.result(sha), 'error: cancelled')
  t.strictSame([place.jobs(), findProcesses({ run })], [[], []])
})

for (const failure of ['hang', { status: 403 }] as const)
  test(`a claim is lost while a list ${failure === 'hang' ? 'does not come' : 'is refused'}`, async (t, place) => {
    const { sha, worker, other } = await leaveJob(t, place, failure)
    const byHand = { state: 'failure', context: 'ci', description: 'by hand' }
    await server.report(place.name, sha, byHand, place.token)
    await eventually(() => place.jobs().length === 0)
    const sent = reports(other, sha)
    t.equal(sent.at(-1)?.status, 409)
    t.equal(sent.filter(({ status }) => status === 409).length, 1, 'then nothing more is reported')
    worker.kill('SIGTERM')
    t.match(await worker.finished, { code: 0, stderr: /not reported: This context has a result, "failure"/ })
    t.equal(await place.result(sha), 'failure: by hand')
  })
