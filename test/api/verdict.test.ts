import t, { type Test } from 'tap'
import { INTERVAL } from '../../src/api/waiters.ts'
import type { AppOptions } from '../../src/app.ts'
import { stopServing } from '../../src/ops/stop.ts'
import { databases, postgres, type TestDatabase } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer } from '../helpers/server.ts'
import { openTcpProxy } from '../helpers/tcp-proxy.ts'
import { until } from '../helpers/until.ts'

const METRICS_TOKEN = 'metrics-of-this-test'
const REPO = 'acme/rocket'

async function setUp(
  t: Test,
  database: TestDatabase,
  options: Partial<AppOptions> & { private?: boolean } = {},
) {
  const { private: isPrivate = false, ...appOptions } = options
  const server = await startServer(t, { database, metricsToken: METRICS_TOKEN, ...appOptions })
  const { commits } = await server.createRepository(REPO, { commits: 2, private: isPrivate })
  const [sha = '', other = ''] = commits
  const token = await server.createToken('acme')
  const report = (context: string, state: string, id = sha) =>
    server.report(REPO, id, { context, state }, token)

  const ask = (query = '', headers: Record<string, string> = {}, id = sha) =>
    server.call('GET', `/api/v1/repos/${REPO}/commits/${id}/verdict${query}`, {
      headers,
      ...(isPrivate && { token }),
    })

  const waiting = async () => {
    const page = await fetch(`${server.url}/metrics`, {
      headers: { authorization: `Bearer ${METRICS_TOKEN}` },
    })
    return Number(/^commit_status_waiting_requests (\d+)$/m.exec(await page.text())?.[1])
  }
  /** Returns when so many requests wait. */
  const untilWaiting = async (count: number) => {
    // A waiting request says nothing until its answer; the server's own count does.
    await until(async () => (await waiting()) === count)
  }
  /** Sends a request that waits, and returns its answer, once it does. */
  const hold = async (query = '', id = sha) => {
    const before = await waiting()
    const etag = (await ask(query, {}, id)).headers.get('etag') ?? ''
    const answer = ask(`${query}${query ? '&' : '?'}wait=25`, { 'if-none-match': etag }, id)
    await untilWaiting(before + 1)
    return { answer, etag }
  }
  return { server, sha, other, token, report, ask, hold, waiting, untilWaiting }
}

for (const database of databases) {
  const test = (name: string, work: (t: Test) => Promise<void>) => t.test(`${database.name}: ${name}`, work)

  test('the verdict of a commit', async (t) => {
    const { server, sha, token, report, ask } = await setUp(t, database)
    t.same((await ask()).json, { verdict: 'pending', state: null, required: [] }, 'nothing is reported')
    await report('ci/build', 'success')
    t.same((await ask()).json, { verdict: 'success', state: 'success', required: [] }, 'all contexts count')
    t.same((await ask('?branch=main')).json.verdict, 'success', 'a branch without a rule adds nothing')
    await report('ci/lint', 'success')
    await report('docs', 'pending')
    t.same((await ask('?require=ci/*&require=lint&require=ci%2F*')).json, {
      verdict: 'pending',
      state: 'pending',
      required: [
        { pattern: 'ci/*', state: 'success', contexts: ['ci/build', 'ci/lint'] },
        { pattern: 'lint', state: null, contexts: [] },
      ],
    })
    t.equal((await ask('?require=ci/*')).json.verdict, 'success')
    t.equal((await ask()).json.verdict, 'pending')
    await report('ci/lint', 'error')
    t.equal((await ask('?require=lint&require=ci/*')).json.verdict, 'failure')
    t.equal((await ask('?require=ci/build')).json.verdict, 'success')

    const upper = await ask('?require=ci/*', {}, sha.toUpperCase())
    t.equal(upper.json.verdict, 'failure')
    const head = await server.call('HEAD', `/api/v1/repos/${REPO}/commits/${sha}/verdict`)
    t.equal(head.status, 200)
    t.equal((await ask('', {}, '0'.repeat(40))).status, 404, 'no such commit')
    t.equal((await ask('', {}, sha.slice(0, 8))).status, 422)
    t.match((await ask('', {}, '0'.repeat(64))).json.error, /^sha is 64 hex digits long/)
    const scopeless = await server.createToken('acme', { scopes: [] })
    for (const [status, credential] of [
      [200, token],
      [403, scopeless],
      [401, 'wrong'],
    ] as const) {
      const answer = await server.call('GET', `/api/v1/repos/${REPO}/commits/${sha}/verdict`, {
        token: credential,
      })
      t.equal(answer.status, status)
    }
  })

  test('a branch adds the patterns of its rules', async (t) => {
    const { server, report, ask } = await setUp(t, database)
    const repository = await server.store.repositories.get('acme', 'rocket')
    const require = (branchPattern: string, ...required: string[]) =>
      server.store.rules.set(repository, { branchPattern, required, bypass: [] })
    await require('main', 'lint', 'ci/*')
    await report('ci/build', 'success')
    t.equal((await ask('?branch=docs')).json.verdict, 'success', 'no rule matches it')
    const held = await ask('?branch=main&require=ci/build')
    t.same(held.json, {
      verdict: 'pending',
      state: 'success',
      required: [
        { pattern: 'ci/build', state: 'success', contexts: ['ci/build'] },
        { pattern: 'lint', state: null, contexts: [] },
        { pattern: 'ci/*', state: 'success', contexts: ['ci/build'] },
      ],
    })
    await report('lint', 'success')
    const passed = await ask('?branch=main')
    t.equal(passed.json.verdict, 'success')
    const waiting = ask('?branch=main&wait=1', { 'if-none-match': passed.headers.get('etag') ?? '' })
    await require('ma*', 'docs')
    t.equal((await waiting).json.verdict, 'pending', 'a new rule counts at the end of the wait at the latest')
  })

  test('a broken parameter is named', async (t) => {
    const { ask } = await setUp(t, database)
    for (const [query, error] of [
      ['?wait=26', /^wait must be <= 25; got 26$/],
      ['?wait=-1', /^wait must be >= 0; got -1$/],
      ['?wait=1.5', /^wait must be an integer; got 1.5$/],
      ['?wait=soon', /^wait must be an integer; got "soon"$/],
      ['?wait=', /^wait must be an integer; got ""$/],
      ['?wait=1&wait=1', /^wait was sent more than once; send it once$/],
      ['?branch=', /^branch is 0 characters long; at least 1 is required$/],
      ['?branch=a&branch=b', /^branch was sent more than once; send it once$/],
      ['?require=', /^require.0 is 0 characters long; at least 1 is required$/],
      [
        `?require=a&require=${'b'.repeat(256)}`,
        /^require.1 is 256 characters long; at most 255 are allowed$/,
      ],
      ['?require=a%00', /^require.0 must not contain U\+0000 or a lone surrogate/],
      ['?require=%ff', /^require cannot be decoded/],
      [`?${'require=a&'.repeat(51)}`, /^require must NOT have more than 50 items/],
    ] as const) {
      const { status, json } = await ask(query)
      t.equal(status, 422, query)
      t.match(json.error, error)
    }
  })

  test('an answer is held only where there is something to wait for', async (t) => {
    const { ask, report, hold, untilWaiting } = await setUp(t, database)
    const etag = (await ask()).headers.get('etag') ?? ''
    const first = await Promise.race([ask('?wait=25'), untilWaiting(1)])
    t.equal(first?.status, 200, 'without If-None-Match')
    t.equal((await ask('', { 'if-none-match': etag })).status, 304, 'without wait')
    t.equal((await ask('?wait=0', { 'if-none-match': etag })).status, 304)
    t.equal((await ask('?wait=25', { 'if-none-match': 'W/"other"' })).status, 200, 'with an older ETag')
    const start = performance.now()
    const over = await ask('?wait=1', { 'if-none-match': `"other", ${etag}` })
    t.equal(over.status, 304, 'until the time is over')
    t.ok(performance.now() - start > 900)
    t.equal(over.headers.get('etag'), etag)
    const any = ask('?wait=25', { 'if-none-match': '*' })
    await untilWaiting(1)
    await report('any', 'success')
    await untilWaiting(0)
    const changed = await any
    t.equal(changed.status, 304, 'ends with the first change also where no answer would be sent')
    t.not(changed.headers.get('etag'), etag)

    const { answer } = await hold('?require=ci/*')
    await report('docs', 'pending')
    t.equal((await answer).json.state, 'pending', 'a report that changes the answer, not the verdict')
    const again = await hold('?require=ci/*')
    await report('docs', 'pending')
    await report('more', 'pending')
    await report('ci/build', 'success')
    t.same((await again.answer).json.verdict, 'success', 'not by reports that change nothing')
  })

  test('a report wakes the requests that wait for it', async (t) => {
    const { server, report, hold, token, sha, other, waiting, untilWaiting } = await setUp(t, database)
    const instance = await startInstance(t, server.options)
    await report('ci', 'pending')
    await report('ci', 'pending', other)
    const elsewhere = await hold('?require=ci', other)
    const here = [await hold('?require=ci'), await hold(), await hold('?require=none&require=c*')]
    const start = performance.now()
    await report('ci', 'failure')
    for (const { answer, etag } of here) {
      const { status, json, headers } = await answer
      t.match({ status, json }, { status: 200, json: { verdict: 'failure' } })
      t.not(headers.get('etag'), etag)
    }
    t.comment(`answered ${Math.round(performance.now() - start)} ms after a report of the same process`)
    t.equal(await waiting(), 1, 'requests for other commits go on waiting')

    const looks: number[] = []
    const { snapshots } = server.store.statuses
    server.store.statuses.snapshots = (commits) => {
      looks.push(performance.now())
      return snapshots(commits)
    }
    await instance.report(REPO, other, { context: 'ci', state: 'success' }, token)
    const stored = performance.now()
    await untilWaiting(0)
    t.equal((await elsewhere.answer).json.verdict, 'success', 'after a report of another process')
    t.ok(looks.length > 0)
    t.ok(looks.filter((time) => time > stored).length <= 1, 'by the first look after it')
    t.ok(INTERVAL <= 1_000, 'and there is one every second')

    // Both in one second, so that updated_at stays the same.
    const { answer: changed } = await hold()
    await report('ci', 'failure')
    await instance.report(REPO, sha, { context: 'ci', state: 'success' }, token)
    t.equal((await changed).json.verdict, 'success')
  })

  test('access is checked again before each answer', async (t) => {
    const { server, hold, sha } = await setUp(t, database, { private: true })
    const revoked = await hold()
    const [row] = await server.store.tokens.list((await server.store.users.find('acme'))?.id ?? 0)
    const second = await server.createToken('acme')
    await server.store.tokens.revoke(row?.id ?? '')
    await server.report(REPO, sha, { state: 'success' }, second)
    t.equal((await revoked.answer).status, 401, 'a revoked token')
  })

  test('a repository that is deleted meanwhile', async (t) => {
    const { server, report, hold } = await setUp(t, database)
    await report('ci', 'pending')
    const { answer } = await hold()
    await server.store.repositories.delete('acme', 'rocket')
    t.equal((await answer).status, 401, 'is missing, as for a new request')
  })

  test('beyond the limits answers come at once', async (t) => {
    const { report, ask, hold, untilWaiting } = await setUp(t, database, {
      waits: {
        requests: { total: 9, perClient: 2 },
        contexts: { total: 9, perClient: 3 },
        comparisons: { total: 9, perClient: 5 },
      },
    })
    const etag = (await ask()).headers.get('etag') ?? ''
    const held = [await hold(), await hold()]
    const refused = await ask('?wait=25', { 'if-none-match': etag })
    t.equal(refused.status, 304)
    t.equal(refused.headers.get('retry-after'), '5')
    t.equal(
      (await ask('', { 'if-none-match': etag })).headers.get('retry-after'),
      null,
      'where it did not ask',
    )
    await report('a', 'success')
    for (const { answer } of held) t.equal((await answer).status, 200)
    await untilWaiting(0)

    const patterns = 'require=1&require=2&require=3&'
    const compared = (await ask(`?${patterns}`)).headers.get('etag') ?? ''
    const { answer } = await hold(`?${patterns}`)
    const third = await ask(`?${patterns}wait=25`, { 'if-none-match': compared })
    t.equal(third.headers.get('retry-after'), '5', 'comparisons of contexts with patterns')
    await report('2', 'success')
    t.equal((await answer).status, 200)
    await untilWaiting(0)

    for (const context of ['c', 'd']) await report(context, 'success')
    const large = (await ask()).headers.get('etag') ?? ''
    t.equal((await ask('?wait=25', { 'if-none-match': large })).headers.get('retry-after'), '5', 'contexts')
  })

  test('a client that disconnects is no longer counted', async (t) => {
    const { server, ask, sha, untilWaiting } = await setUp(t, database)
    const etag = (await ask()).headers.get('etag') ?? ''
    const controller = new AbortController()
    const gone = fetch(`${server.url}/api/v1/repos/${REPO}/commits/${sha}/verdict?wait=25`, {
      headers: { 'if-none-match': etag },
      signal: controller.signal,
    })
    await untilWaiting(1)
    controller.abort()
    await t.rejects(gone)
    await untilWaiting(0)
  })

  test('stopping the server answers all', async (t) => {
    const { server, hold } = await setUp(t, database)
    const held = [await hold(), await hold('?require=a')]
    await stopServing(server.app, new AbortController().signal)
    for (const { answer } of held) {
      const { status, headers } = await answer
      t.equal(status, 304)
      t.equal(headers.get('retry-after'), '5', 'before its time: the client must not ask at once again')
    }
  })
}

t.test('PostgreSQL: requests that wait get 503 while the database is away', async (t) => {
  const create: TestDatabase['create'] = async (t) => {
    const options = await postgres.create(t)
    proxy = await openTcpProxy(t, options.databaseUrl ?? '')
    return { ...options, databaseUrl: proxy.url }
  }
  let proxy: Awaited<ReturnType<typeof openTcpProxy>> | undefined
  const { ask, hold } = await setUp(t, { name: 'PostgreSQL', create })
  const { answer } = await hold()
  proxy?.freeze()
  const { status, headers } = await answer
  t.equal(status, 503)
  t.ok(headers.has('retry-after'))
  t.equal((await ask()).status, 200, 'afterwards')
})
