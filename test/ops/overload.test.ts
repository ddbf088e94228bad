import { setImmediate, setTimeout } from 'node:timers/promises'
import t from 'tap'
import { block } from '../helpers/block.ts'
import { startServer, type TestServer } from '../helpers/server.ts'

const METRICS_TOKEN = 'metrics-token'

/** Blocks the event loop for that long, repeatedly, until `done`. @returns how often */
async function hog(milliseconds: number, done: Promise<unknown>): Promise<number> {
  let running = true
  let times = 0
  done.finally(() => {
    running = false
  })
  while (running) {
    block(milliseconds)
    await setImmediate()
    times++
  }
  return times
}

async function untilStatus(server: TestServer, path: string, status: number): Promise<Headers> {
  for (;;) {
    const answer = await server.call('GET', path)
    if (answer.status === status) return answer.headers
  }
}

t.test('an overloaded server sheds load, then recovers', async (t) => {
  const server = await startServer(t, { maxEventLoopDelay: 30, metricsToken: METRICS_TOKEN })
  const { commits } = await server.createRepository('alice/rocket')
  const path = `/api/v1/repos/alice/rocket/commits/${commits[0]}/statuses`

  const overload = async () => {
    t.equal((await untilStatus(server, path, 503)).get('retry-after'), '2')
    await untilStatus(server, '/readyz', 503)
    t.equal((await server.call('GET', '/healthz')).status, 200, 'health checks are answered')
    t.equal(
      (await server.call('GET', '/metrics', { token: METRICS_TOKEN })).status,
      200,
      'metrics are answered',
    )
    t.equal((await server.call('GET', '/nowhere')).status, 503, 'unknown paths too')
  }
  // Each measurement begins anew: quiet times before the load do not count.
  await setTimeout(1_500)
  const overloaded = overload()
  const times = await hog(60, overloaded)
  await overloaded
  t.ok(times < 100, `${times} pauses of 60 ms`)

  await untilStatus(server, path, 200)
  const { body } = await server.call('GET', '/metrics', { token: METRICS_TOKEN })
  t.match(body, /^commit_status_requests_shed_total [1-9]/m)
})

t.test('a single long pause is no overload', async (t) => {
  // Long enough that the mean of any half second that ends with it is above the limit.
  const server = await startServer(t, { maxEventLoopDelay: 100 })
  let statuses = [0]
  // On a busy machine there may be another pause, right before it.
  for (let attempt = 0; attempt < 3 && statuses.some((status) => status !== 200); attempt++) {
    await setTimeout(1_500)
    const answers = Array.from({ length: 20 }, () => server.call('GET', '/readyz'))
    block(4_000)
    statuses = (await Promise.all(answers)).map(({ status }) => status)
  }
  t.same(
    statuses,
    Array.from({ length: 20 }, () => 200),
  )
})
