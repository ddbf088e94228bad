import t, { type Test } from 'tap'
import { backoff } from '../src/backoff.ts'
import { createCircuitBreaker } from '../src/circuit-breaker.ts'
import { createClient } from '../src/index.ts'
import { createKeyedQueue } from '../src/keyed-queue.ts'
import { startService } from './helpers/service.ts'

const state = 'success'

const service = await startService(t, { commits: 12 })
t.jobs = 4

/** Adds a test that runs beside others. */
const test = (name: string, body: (t: Test) => Promise<void>) => t.test(name, { buffered: true }, body)

test('503 twice, then stored', async (t) => {
  const { proxy, token, commit, stored } = await service.again()
  proxy.plan({ status: 503 }, { status: 503, body: '<h1>Unavailable</h1>' })
  const client = createClient({ baseUrl: proxy.url, token })
  t.equal((await client.reportStatus({ ...commit, body: { state } })).status, 201)
  t.strictSame(
    proxy.passages.map(({ status }) => status),
    [503, 503, 201],
  )
  t.strictSame(await stored(), ['default success'])
})

test('an answer that is lost after the report was stored', async (t) => {
  const { proxy, token, commit, stored } = await service.again()
  proxy.plan('reset')
  const client = createClient({ baseUrl: proxy.url, token })
  t.equal((await client.reportStatus({ ...commit, body: { state } })).status, 201)
  t.equal(proxy.passages.length, 2)
  t.strictSame(await stored(), ['default success'])
})

test('502 and 504 of a gateway are tried again, 500 is not', async (t) => {
  const { proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  proxy.plan({ status: 502 }, { status: 504 }, { status: 500 })
  t.match(await client.reportStatus({ ...commit, body: { state } }), { status: 0 })
  t.equal(proxy.passages.length, 3)
})

test('Retry-After is obeyed by every call of the client, and a longer one ends the tries', async (t) => {
  const { proxy, token, commit, stored } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  proxy.plan({ status: 429, headers: { 'retry-after': '1' } })
  const first = client.reportStatus({ ...commit, body: { state, context: 'a' } })
  t.equal((await first).status, 201)
  const [refused, accepted] = proxy.passages
  t.ok(refused && accepted && accepted.at - refused.at >= 990, 'not a moment earlier')

  proxy.plan({ status: 429, headers: { 'retry-after': new Date(Date.now() + 60_000).toUTCString() } })
  // After a wait both would be stored.
  t.equal((await client.reportStatus({ ...commit, body: { state, context: 'b' } })).status, 429)
  t.equal((await client.reportStatus({ ...commit, body: { state, context: 'c' } })).status, 429)
  t.equal(proxy.passages.length, 3, 'the other call was not sent at all')
  t.strictSame(await stored(), ['a success'])
})

test('a shorter Retry-After does not end a longer one', async (t) => {
  const breaker = createCircuitBreaker({ token: true })
  const answer = (status: number, seconds: string) =>
    breaker.record({ status, body: {}, headers: new Headers({ 'retry-after': seconds }) })
  answer(429, '60')
  answer(503, '1')
  t.match(breaker.pause(), { answer: { status: 429 } })
  t.ok((breaker.pause()?.milliseconds ?? 0) > 50_000)
})

test('a server that hangs costs one timeout a try, and never more than the total', async (t) => {
  const { proxy, token, commit, stored } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token, timeout: 1_000 })
  proxy.plan('hang')
  t.equal((await client.reportStatus({ ...commit, body: { state } })).status, 201)
  t.ok(proxy.passages.length >= 2)

  proxy.plan(...Array.from({ length: 20 }, () => 'hang' as const))
  const before = performance.now()
  const answer = await client.reportStatus(
    { ...commit, body: { state: 'failure' } },
    { timeout: 200, totalTimeout: 700 },
  )
  t.match(answer, { status: 0, body: { error: /timed out after \d+ ms/ } })
  const took = performance.now() - before
  t.ok(took >= 199, `${took} ms`)
  t.ok(proxy.passages.length <= 8, 'no attempt after the total')
  t.strictSame(await stored(), ['default success'])
})

test('an attempt that the time limit cuts short does not hide the reason before it', async (t) => {
  const { proxy, token, commit } = await service.again()
  for (const failure of [{ status: 503 }, 'reset'] as const) {
    proxy.plan(failure, ...Array.from({ length: 9 }, () => 'hang' as const))
    const client = createClient({ baseUrl: proxy.url, token, totalTimeout: 5_000 })
    const answer = await client.listStatuses(commit)
    if (failure === 'reset') t.match(answer, { status: 0, body: { error: /ECONNRESET|closed|socket/ } })
    else t.match(answer, { status: 503 })
    proxy.dropPlan()
  }
})

test('times without a bound are no bounds', async (t) => {
  const { proxy, token, commit } = await service.again()
  const unbounded = { timeout: Number.POSITIVE_INFINITY, totalTimeout: Number.POSITIVE_INFINITY }
  const client = createClient({ baseUrl: proxy.url, token, ...unbounded })
  t.equal((await client.listStatuses(commit)).status, 200)
  t.equal(proxy.passages.length, 1)
})

test('a signal ends a try, a pause and a place in the line', async (t) => {
  const { proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  const reason = new Error('enough')
  const body = { state } as const

  proxy.plan('hang')
  const trying = new AbortController()
  const first = client.reportStatus({ ...commit, body }, { signal: trying.signal })
  await proxy.reached(1)
  const queued = new AbortController()
  const second = client.reportStatus({ ...commit, body }, { signal: queued.signal })
  queued.abort(reason)
  await t.rejects(second, reason)
  trying.abort(reason)
  await t.rejects(first, reason)

  proxy.plan({ status: 429, headers: { 'retry-after': '20' } })
  const paused = new AbortController()
  const third = client.listStatuses(commit, { signal: paused.signal })
  await proxy.reached(2)
  paused.abort(reason)
  await t.rejects(third, reason)
  await t.rejects(client.listStatuses(commit, { signal: AbortSignal.abort(reason) }), reason)
  t.equal(proxy.passages.length, 2)
})

test('reports of one context are sent in order; those of others do not wait', async (t) => {
  const { proxy, token, commit, stored } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token, timeout: 4_000 })
  proxy.plan('hang')
  const pending = client.reportStatus({ ...commit, body: { state: 'pending', context: 'slow' } })
  await proxy.reached(1)
  const final = client.reportStatus({ ...commit, owner: 'ACME', body: { state: 'failure', context: 'slow' } })
  const other = await client.reportStatus({ ...commit, body: { state, context: 'quick' } })
  t.equal(other.status, 201)
  t.strictSame(await stored(), ['quick success'], 'the final report is behind the one that hangs')
  t.match(await pending, { status: 0 }, 'and that is not tried again, since a newer one waits')
  t.equal((await final).status, 201)
  t.equal(proxy.passages.length, 3)
  t.strictSame(await stored(), ['quick success', 'slow failure'])

  const many = ['pending', 'error', 'pending', 'success'] as const
  await Promise.all(
    many.map((each) => client.reportStatus({ ...commit, body: { state: each, context: 'slow' } })),
  )
  const sent = proxy.passages.slice(3).map(({ body }): unknown => JSON.parse(body).state)
  t.strictSame(sent, many)
})

test('a report that comes when the first of two was sent waits for the second', async (t) => {
  const queue = createKeyedQueue()
  const order: string[] = []
  const send = (name: string, sent?: Promise<void>) =>
    queue('slow', async () => {
      order.push(`${name} begins`)
      await sent
      order.push(`${name} ends`)
    })
  const second = Promise.withResolvers<void>()
  const reports = [send('first'), send('second', second.promise)]
  await reports[0]
  reports.push(send('third'))
  await new Promise((resolve) => setImmediate(resolve))
  second.resolve()
  await Promise.all(reports)
  t.strictSame(
    order,
    ['first', 'second', 'third'].flatMap((name) => [`${name} begins`, `${name} ends`]),
  )
})

test('a report waits no longer for its commit than it may', async (t) => {
  const { proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  const begun = performance.now()
  const report = { ...commit, sha: 'f'.repeat(40), body: { state } } as const
  t.equal((await client.reportStatus(report, { waitForCommit: 100 })).status, 404)
  t.ok(performance.now() - begun < 20_000, `${performance.now() - begun} ms`)
  t.ok(proxy.passages.length <= 2, `${proxy.passages.length} attempts`)
})

test('a report that waits for its commit is given up for a newer one', async (t) => {
  const { proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  const report = { ...commit, sha: 'f'.repeat(40), body: { state } } as const
  const waiting = client.reportStatus(report, { waitForCommit: 30_000 })
  await proxy.answered(1)
  t.equal((await client.reportStatus(report)).status, 404)
  t.equal((await waiting).status, 404)
  t.equal(proxy.passages.length, 2, 'and not sent again')
})

test('pauses are spread over a bound that doubles up to 8 s', async (t) => {
  for (const [index, bound] of [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].entries()) {
    const pauses = Array.from({ length: 500 }, () => backoff(index))
    t.ok(Math.max(...pauses) <= bound && Math.max(...pauses) > bound * 0.9, `try ${index}`)
    t.ok(Math.min(...pauses) < bound * 0.1)
  }
})
