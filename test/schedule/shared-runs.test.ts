import t from 'tap'
import { type RunClient, SharedRuns } from '../../src/schedule/shared-runs.ts'

function setUp() {
  const runs = new SharedRuns<number>()
  const started: { signal: AbortSignal; end(value: number): void }[] = []
  const work = ({ signal }: RunClient) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    signal.addEventListener('abort', () => reject(signal.reason))
    started.push({ signal, end: resolve })
    return promise
  }
  return { runs, started, work }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

t.test('callers at the same time share a run, and a key has its own', async (t) => {
  const { runs, started, work } = setUp()
  const answers = [runs.join('a', work), runs.join('a', work), runs.join('b', work)]
  await turn()
  t.equal(started.length, 2)
  started[0]?.end(1)
  started[1]?.end(2)
  t.same(await Promise.all(answers), [1, 1, 2])
  void runs.join('a', work)
  await turn()
  t.equal(started.length, 3, 'a later call begins a run of its own')
})

t.test('a caller never joins a run that began before', async (t) => {
  const { runs, started, work } = setUp()
  const first = runs.join('a', work)
  await turn()
  const later = [runs.join('a', work), runs.join('a', work)]
  await turn()
  t.equal(started.length, 1)
  started[0]?.end(1)
  t.equal(await first, 1)
  await turn()
  t.equal(started.length, 2, 'all later callers share the next run')
  const latest = runs.join('a', work)
  await turn()
  t.equal(started.length, 2, 'one run follows the other')
  started[1]?.end(2)
  t.same(await Promise.all(later), [2, 2])
  await turn()
  started[2]?.end(3)
  t.equal(await latest, 3)
})

t.test('nobody joins a run that was given up before it began', async (t) => {
  const { runs, started, work } = setUp()
  const first = runs.join('a', work)
  await turn()
  const controller = new AbortController()
  const givenUp = runs.join('a', work, { address: '192.0.2.1', signal: controller.signal })
  controller.abort(new Error('gone'))
  await t.rejects(givenUp, { message: 'gone' })
  const later = runs.join('a', work)
  started[0]?.end(1)
  t.equal(await first, 1)
  await turn()
  started[1]?.end(2)
  t.equal(await later, 2)
})

t.test('any number of runs can be given up while an earlier one runs', async (t) => {
  const { runs, started, work } = setUp()
  const first = runs.join('a', work)
  await turn()
  const givenUp: Promise<unknown>[] = []
  for (let n = 0; n < 10_000; n++) {
    const controller = new AbortController()
    givenUp.push(runs.join('a', work, { address: '192.0.2.1', signal: controller.signal }))
    controller.abort(new Error('gone'))
    await Promise.allSettled(givenUp.slice(-1))
  }
  const later = runs.join('a', work, { address: '192.0.2.2' })
  await turn()
  started[0]?.end(1)
  t.equal(await first, 1)
  await turn()
  started[1]?.end(2)
  t.equal(await later, 2)
  for (const each of givenUp)
    await each.catch((error: Error) => error.message !== 'gone' && t.fail(error.message))
})

t.test('a failed run fails for its callers only', async (t) => {
  const { runs, started, work } = setUp()
  const first = runs.join('a', async () => {
    await turn()
    throw new Error('broken')
  })
  first.catch(() => {})
  await Promise.resolve().then(() => {})
  const next = runs.join('a', work)
  await t.rejects(first, { message: 'broken' })
  await turn()
  started[0]?.end(1)
  t.equal(await next, 1)
})

t.test('a run is aborted when its last caller has aborted', async (t) => {
  const { runs, started, work } = setUp()
  const [one, other] = [new AbortController(), new AbortController()]
  const answers = [
    runs.join('a', work, { address: '192.0.2.1', signal: one.signal }),
    runs.join('a', work, { address: '192.0.2.2', signal: other.signal }),
  ]
  await turn()
  one.abort(new Error('one is gone'))
  await t.rejects(async () => void (await answers[0]), { message: 'one is gone' })
  t.equal(started[0]?.signal.aborted, false)
  other.abort(new Error('the other is gone'))
  await t.rejects(async () => void (await answers[1]), { message: 'the other is gone' })
  t.equal(started[0]?.signal.aborted, true)

  const again = runs.join('a', work)
  await turn()
  started[1]?.end(1)
  t.equal(await again, 1, 'a later caller does not join an aborted run')
  await t.rejects(runs.join('a', work, { address: '192.0.2.1', signal: one.signal }), {
    message: 'one is gone',
  })
})

t.test('a run has the addresses of those who wait for its result, or for its end', async (t) => {
  const runs = new SharedRuns<void>()
  const begun: RunClient[] = []
  const ended: (() => void)[] = []
  const work = (client: RunClient) => {
    begun.push(client)
    return new Promise<void>((resolve) => ended.push(resolve))
  }
  const gone = new AbortController()
  const [one, two, three] = [1, 2, 3].map((end) => ({ address: `192.0.2.${end}` }))
  const outer = runs.join('outer', (client) => runs.join('a', work, client), one)
  void runs.join('outer', work, two)
  await turn()
  const addresses = () => [...(begun[0]?.address ?? [])]
  t.same(addresses(), ['192.0.2.1', '192.0.2.2'])
  const later = [runs.join('a', work, three), runs.join('a', work, three)]
  const left = runs.join('a', work, { address: '192.0.2.4', signal: gone.signal })
  await turn()
  t.same(addresses(), ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'])
  gone.abort(new Error('gone'))
  await t.rejects(left, { message: 'gone' })
  t.same(addresses(), ['192.0.2.1', '192.0.2.2', '192.0.2.3'])

  ended[0]?.()
  await outer
  await turn()
  t.same([...(begun[1]?.address ?? [])], ['192.0.2.3'])
  t.same(addresses(), [], 'nobody waits for a run that has ended')
  ended[1]?.()
  await Promise.all(later)
  t.same([...(begun[1]?.address ?? [])], [])
})
