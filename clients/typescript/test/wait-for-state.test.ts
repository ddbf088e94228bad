import t, { type Test } from 'tap'
import { createClient } from '../src/index.ts'
import { slowdown } from '../src/poll.ts'
import { startService } from './helpers/service.ts'

const service = await startService(t, { commits: 7 })
t.jobs = 4

/** Adds a test that runs beside others. */
const test = (name: string, body: (t: Test) => Promise<void>) => t.test(name, { buffered: true }, body)

test('it ends as soon as no further report can change the outcome', async (t) => {
  const { server, proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  const report = (context: string, state: string) =>
    server.report('acme/rocket', commit.sha, { context, state }, token)
  const seen: (string | null)[] = []
  const waiting = client.waitForState(commit, {
    require: ['build', 'test'],
    interval: 20,
    onChange: ({ state, missing }) => seen.push(`${state} ${missing}`),
  })
  await proxy.reached(3)
  await report('build', 'pending')
  while (!seen.includes('pending test')) await new Promise(setImmediate)
  await proxy.reached(proxy.passages.length + 2)
  await report('build', 'failure')
  t.match(await waiting, {
    outcome: 'failure',
    state: 'failure',
    missing: ['test'],
    decisive: [{ context: 'build' }],
    statuses: { length: 1 },
  })
  t.strictSame(seen, ['null build,test', 'pending test', 'failure test'])
  t.ok(
    proxy.passages.some(({ status }) => status === 304),
    'an unchanged answer is not sent again',
  )

  await report('build', 'success')
  const second = client.waitForState(commit, { require: ['build', 'test'], interval: 20 })
  await proxy.reached(proxy.passages.length + 2)
  await report('test', 'success')
  t.match(await second, { outcome: 'success', state: 'success' })
  const third = client.waitForState(commit, { interval: 20, settle: 15_000 })
  await proxy.reached(proxy.passages.length + 2)
  await report('late', 'failure')
  t.match(await third, { outcome: 'failure' }, 'a context that appears before the others have settled counts')
  await t.rejects(client.waitForState(commit, { only: true }), TypeError)
})

test('the timeout tells what is missing', async (t) => {
  const { server, proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  const options = { timeout: 60, interval: 20 }
  t.match(await client.waitForState(commit, options), { outcome: 'pending', state: null, statuses: [] })
  await server.report('acme/rocket', commit.sha, { context: 'a', state: 'pending' }, token)
  t.match(await client.waitForState(commit, options), { outcome: 'pending', state: 'pending' })
  t.match(await client.waitForState(commit, { ...options, require: ['a', 'b'] }), {
    outcome: 'missing',
    missing: ['b'],
  })
  await server.report('acme/rocket', commit.sha, { context: 'a', state: 'success' }, token)
  t.match(await client.waitForState(commit, { ...options, require: ['b'] }), {
    outcome: 'missing',
    state: 'success',
    missing: ['b'],
  })
})

test('it outlives a server that is away for a while, and ends when it is refused', async (t) => {
  const { server, proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  const waiting = client.waitForState(commit, { interval: 20, settle: 0 })
  await proxy.reached(2)
  await proxy.close()
  await server.report('acme/rocket', commit.sha, { state: 'success' }, token)
  await proxy.open()
  t.match(await waiting, { outcome: 'success' })

  t.match(await client.waitForState({ ...commit, repo: 'none' }), {
    outcome: 'unanswered',
    answer: { status: 404 },
  })
  const stopped = new AbortController()
  const another = client.waitForState(
    { ...commit, sha: commit.sha },
    { require: ['x'], signal: stopped.signal },
  )
  const reason = new Error('enough')
  stopped.abort(reason)
  await t.rejects(another, reason)
})

test('an answer without a list of statuses is none', async (t) => {
  const { proxy, token, commit } = await service.again()
  proxy.plan({ status: 200, body: '{"state":"success","statuses":null}' })
  t.match(await createClient({ baseUrl: proxy.url, token }).waitForState(commit, { require: ['x'] }), {
    outcome: 'unanswered',
    answer: { status: 0, body: { error: /without a list of statuses/ } },
  })
})

test('it polls every second, every 3 seconds after half a minute, every 5 after five minutes', async (t) => {
  t.strictSame([0, 29_999, 30_000, 299_999, 300_000, 3_600_000].map(slowdown), [1, 1, 3, 3, 5, 5])
  const { server, proxy, token, commit } = await service.again()
  const client = createClient({ baseUrl: proxy.url, token })
  const waiting = client.waitForState(commit, { require: ['x'], settle: 0 })
  await proxy.answered(3)
  await server.report('acme/rocket', commit.sha, { context: 'x', state: 'success' }, token)
  t.match(await waiting, { outcome: 'success' })
  const times = proxy.passages.map(({ at }) => at)
  const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0))
  for (const pause of pauses) t.ok(pause > 740, `${Math.round(pause)} ms`)
  const answers = proxy.passages.map(({ url, status }) => `${url.split('/').at(-1)} ${status}`)
  const between = Array.from({ length: Math.max(2, answers.length - 2) }, () => 'statuses 304')
  t.strictSame(answers, ['statuses 200', ...between, 'statuses 200'])
})

test('a service that is busy says when to ask again', async (t) => {
  const { server, proxy, token, commit } = await service.again()
  proxy.plan('pass', { status: 503, headers: { 'retry-after': '1' } })
  const waiting = createClient({ baseUrl: proxy.url, token }).waitForState(commit, {
    require: ['x'],
    interval: 20,
  })
  await proxy.reached(3)
  const [, refused, next] = proxy.passages
  t.ok((next?.at ?? 0) - (refused?.at ?? 0) > 990)
  await server.report('acme/rocket', commit.sha, { context: 'x', state: 'success' }, token)
  t.match(await waiting, { outcome: 'success' })
})
