import t from 'tap'
import { operations } from '../src/generated/operations.ts'
import { createClient } from '../src/index.ts'
import { startService } from './helpers/service.ts'

t.test('it ends as soon as no further report can change the outcome', async (t) => {
  const { server, proxy, token, commit } = await startService(t)
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
  const third = client.waitForState(commit, { interval: 20, settle: 2_000 })
  await proxy.reached(proxy.passages.length + 2)
  await report('late', 'failure')
  t.match(await third, { outcome: 'failure' }, 'a context that appears before the others have settled counts')
  await t.rejects(client.waitForState(commit, { only: true }), TypeError)
})

t.test('the timeout tells what is missing', async (t) => {
  const { server, proxy, token, commit } = await startService(t)
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

t.test('it outlives a server that is away for a while, and ends when it is refused', async (t) => {
  const { server, proxy, token, commit } = await startService(t)
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

t.test('its pauses grow while nothing changes', async (t) => {
  const { proxy, token, commit } = await startService(t)
  const client = createClient({ baseUrl: proxy.url, token })
  await client.waitForState(commit, { interval: 10, timeout: 1_000 })
  t.ok(proxy.passages.length < 30, `${proxy.passages.length} reads in a second; 100 without growing`)
})

t.test('between two reads the service holds an answer until something changes', async (t) => {
  const { server, proxy, token, commit } = await startService(t)
  const client = createClient({ baseUrl: proxy.url, token })
  const held = () => proxy.passages.filter(({ url }) => url.includes('/verdict?'))
  const late = await client.waitForState(commit, { require: ['ci/*', 'x'], timeout: 3_000 })
  t.match(late, { outcome: 'missing', missing: ['ci/*', 'x'] })
  const asked = held().map(({ url }) => Number(new URL(url, proxy.url).searchParams.get('wait')))
  t.ok(asked.reduce((sum, wait) => sum + wait) <= 3, `waits of ${asked} s: never past the timeout`)
  t.match(held()[0]?.url, /\/verdict\?require=ci.{1,3}\*&require=x&wait=1$/)
  t.equal(held()[0]?.headers['if-none-match'], undefined)

  const seen = proxy.passages.length
  const waiting = client.waitForState(commit, { require: ['x'], settle: 0 })
  await proxy.reached(seen + 4)
  await server.report('acme/rocket', commit.sha, { context: 'x', state: 'success' }, token)
  t.match(await waiting, { outcome: 'success' })
  t.equal(proxy.passages.length, seen + 5, 'one read after the held answer')
  const longest = new RegExp(`wait=${operations.getVerdict.maximum.wait}$`)
  t.match(held().at(-1), { url: longest, headers: { 'if-none-match': /^W\// } })
})

t.test('it polls where the service cannot hold answers', async (t) => {
  const { server, proxy, token, commit, again } = await startService(t, { commits: 2 })
  const client = createClient({ baseUrl: proxy.url, token })
  proxy.plan('pass', { status: 404 })
  const waiting = client.waitForState(commit, { require: ['x'], interval: 20 })
  await proxy.reached(6)
  await server.report('acme/rocket', commit.sha, { context: 'x', state: 'success' }, token)
  t.match(await waiting, { outcome: 'success' })
  t.equal(proxy.passages.filter(({ url }) => url.includes('/verdict')).length, 1)

  // A service that holds too many already says when to ask again.
  const second = await again()
  const { proxy: full } = second
  full.plan('pass', 'pass', 'pass', { status: 304, headers: { 'retry-after': '1' } })
  const patient = createClient({ baseUrl: full.url, token }).waitForState(second.commit, {
    require: ['x'],
    interval: 20,
  })
  await full.reached(5)
  const [, , , refused, next] = full.passages
  t.ok((next?.at ?? 0) - (refused?.at ?? 0) > 990)
  await server.report('acme/rocket', second.commit.sha, { context: 'x', state: 'success' }, token)
  t.match(await patient, { outcome: 'success' })
})
