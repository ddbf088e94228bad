import t, { type Test } from 'tap'
import { until } from '../../../test/helpers/until.ts'
import { createClient, type WaitOptions } from '../src/index.ts'
import { poll, type ReadOptions, type Step } from '../src/poll.ts'
import type { FailingProxy } from './helpers/failing-proxy.ts'
import { startService } from './helpers/service.ts'

const first = await startService(t, { commits: 20 })
t.jobs = 4

/** Adds a test that runs beside others. */
const test = (name: string, body: (t: Test) => Promise<void>) => t.test(name, { buffered: true }, body)

/** Milliseconds of an outage, many times those of all attempts of one read. */
const OUTAGE = 2_400
const times = { timeout: 600, totalTimeout: 800 }
const success = { context: 'x', state: 'success' } as const

/** Waits for a commit of its own, and returns what was said about outages along with the end. */
async function startWait(
  options: WaitOptions = {},
  {
    fetch,
    isAway = false,
    limits = times,
  }: { fetch?: (request: Request) => Promise<Response>; isAway?: boolean; limits?: typeof times } = {},
) {
  const service = await first.again()
  const { proxy, token, commit, server } = service
  if (isAway) await proxy.close()
  const client = createClient({ baseUrl: proxy.url, token, ...limits, fetch })
  const said: (string | null)[] = []
  const waiting = client.waitForState(commit, {
    require: ['x'],
    settle: 0,
    interval: 10,
    timeout: 60_000,
    onOutage: (problem) => said.push(problem),
    ...options,
  })
  const pass = () => server.report('acme/rocket', commit.sha, success, token)
  return { ...service, said, waiting, pass }
}

/**
 * Expects that each outage was said once, before its end. A busy machine, where a read takes longer,
 * has more of them.
 */
function expectSaidOnce(t: Test, said: (string | null)[]): void {
  t.ok(
    said.every((problem, index) => (problem === null) === (index % 2 === 1)),
    said.join(', '),
  )
}

/** Waits until the client has read an answer: only then does it ask for a newer one. */
const untilRead = ({ passages }: FailingProxy) =>
  until(() => passages.some(({ headers }) => headers['if-none-match'] !== undefined))

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

test('a wait outlasts an outage that is longer than a read, and says so once', async (t) => {
  for (const isAway of [true, false]) {
    const { proxy, said, waiting, pass } = await startWait({}, { isAway })
    if (!isAway) await untilRead(proxy)
    await proxy.close()
    await pause(OUTAGE)
    await pass()
    await proxy.open()
    t.match(await waiting, { outcome: 'success' })
    t.match(said, [/ECONN|closed|socket|timed out/, null])
    expectSaidOnce(t, said)
    t.equal(said.at(-1), null)
  }
})

test('the timeout ends it, also in an outage', async (t) => {
  const { proxy, said, waiting } = await startWait({ timeout: 2 * OUTAGE })
  const start = performance.now()
  await proxy.close()
  t.match(await waiting, { outcome: 'unanswered', answer: { status: 0, body: { reason: 'unreachable' } } })
  t.ok(performance.now() - start > 2 * OUTAGE - 50, `${performance.now() - start} ms`)
  expectSaidOnce(t, said)
  t.ok(said.at(-1))
})

test('a server that restarts, hangs, resets connections or is replaced by a page goes on', async (t) => {
  const { proxy, said, waiting, pass } = await startWait()
  await untilRead(proxy)
  const failures = [
    'hang',
    'reset',
    { status: 503 },
    { status: 502, body: '<h1>Bad Gateway</h1>' },
    { status: 504 },
    { status: 500 },
    { status: 408 },
    { status: 429, headers: { 'retry-after': '1' } },
    { status: 200, body: '<h1>Back soon</h1>' },
    { status: 302, headers: { location: 'https://example.org/maintenance' } },
    { status: 503, headers: { 'retry-after': '1' } },
  ] as const
  const before = proxy.passages.length
  proxy.plan(...failures)
  await proxy.answered(before + failures.length + 2)
  await pass()
  t.match(await waiting, { outcome: 'success' })
  expectSaidOnce(t, said)
  t.equal(said.at(-1), null)
})

test('a name that is not resolved for a while, and then leads to another address', async (t) => {
  let address: string | undefined
  const asked: string[] = []
  const { proxy, said, waiting, pass } = await startWait(
    {},
    {
      fetch: async (request) => {
        if (address === undefined)
          throw new TypeError('fetch failed', {
            cause: Object.assign(new Error('getaddrinfo ENOTFOUND status.example.org'), {
              code: 'ENOTFOUND',
            }),
          })
        asked.push(address)
        return fetch(new Request(request.url.replace(new URL(request.url).origin, address), request))
      },
    },
  )
  await pause(OUTAGE)
  address = proxy.url
  await untilRead(proxy)
  await proxy.close()
  await pause(OUTAGE)
  address = first.server.url
  await pass()
  t.match(await waiting, { outcome: 'success' })
  t.match(said, [/ENOTFOUND/, null, /./, null])
  expectSaidOnce(t, said)
  t.equal(said.at(-1), null)
  t.same(new Set(asked), new Set([proxy.url, first.server.url]))
})

test('an answer that will not pass ends it at once', async (t) => {
  for (const status of [400, 401, 403, 404, 405, 422]) {
    const limits = { timeout: 10_000, totalTimeout: 20_000 }
    const { proxy, said, waiting } = await startWait({}, { limits })
    await proxy.answered(1)
    proxy.plan({ status })
    const { outcome, ...rest } = await waiting
    t.equal(outcome, 'unanswered', `${status}`)
    const declared = status !== 400 && status !== 405
    t.match(rest, { answer: declared ? { status } : { status: 0, body: { reason: 'refused' } } })
    t.notOk(said.at(-1), 'it is no outage')
  }
})

test('another service at the address ends it, unless the right one has answered before', async (t) => {
  const { proxy, token, commit } = await first.again()
  for (const other of [{ status: 200, body: '<h1>Welcome</h1>' }, { status: 302 }, { status: 500 }]) {
    proxy.plan(other)
    const client = createClient({ baseUrl: proxy.url, token, timeout: 10_000, totalTimeout: 20_000 })
    t.match(await client.waitForState(commit, { interval: 10, timeout: 60_000 }), {
      outcome: 'unanswered',
      answer: { body: { reason: 'unexpected' } },
    })
  }
})

test('what was read before a further read failed is read again', async (t) => {
  const body = { error: 'away', reason: 'unreachable' } as const
  const failure = { status: 0, body, headers: new Headers() } as const
  const asked: unknown[] = []
  const read = async ({ ifNoneMatch }: ReadOptions) => {
    asked.push(ifNoneMatch)
    const headers = new Headers({ etag: '"1"' })
    return ifNoneMatch === undefined
      ? { status: 200 as const, body: 'verdict', headers }
      : { status: 304 as const, body: undefined, headers }
  }
  let further = 0
  const end = await poll(read, { timeout: 20_000, interval: 1 }, ({ body, isNew }): Step<string> => {
    further++
    if (further === 1) return { failure }
    return further === 2 ? { changesIn: 0 } : { end: `${body} ${isNew}` }
  })
  t.same([end, asked], ['verdict false', [undefined, undefined, '"1"']])
})

test('an outage does not count as waiting for the commit', async (t) => {
  const { proxy, waiting, pass } = await startWait({ waitForCommit: 2_000 }, { isAway: true })
  await pause(OUTAGE)
  proxy.plan({ status: 404 })
  await proxy.open()
  await pass()
  t.match(await waiting, { outcome: 'success' })
})
