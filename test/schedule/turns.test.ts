import t from 'tap'
import { QueueFull } from '../../src/schedule/fair-queue.ts'
import { Turns } from '../../src/schedule/turns.ts'

/** Keeps the event loop busy, as a step that computes does. */
function compute(milliseconds: number): void {
  const end = performance.now() + milliseconds
  while (performance.now() < end);
}

t.test('one of 16 addresses computes in a turn of the event loop, and they take turns', async (t) => {
  const addresses = Array.from({ length: 16 }, (_, index) => `192.0.2.${index}`)
  /** @returns the addresses that compute, in order */
  const measure = async () => {
    const turns = new Turns(false)
    let turn = 0
    let isRunning = true
    const count = () => {
      turn++
      if (isRunning) setImmediate(count)
    }
    count()
    const slices: { address: string; turn: number }[] = []
    await Promise.all(
      addresses.map(async (address) => {
        let steps = 0
        await turns.run({ address }, () => {
          const last = slices.at(-1)
          if (last?.address !== address || last.turn !== turn) slices.push({ address, turn })
          compute(0.6)
          return ++steps === 6
        })
      }),
    )
    isRunning = false
    t.equal(new Set(slices.map((slice) => slice.turn)).size, slices.length, 'never two in one turn')
    return slices.slice(0, 32).map(({ address }) => address)
  }
  const inTurns = [...addresses, ...addresses]
  let order = await measure()
  // An address that a busy machine interrupts has had a longer turn, and waits longer.
  for (let again = 0; again < 2 && order.join() !== inTurns.join(); again++) order = await measure()
  t.same(order, inTurns)
})

t.test('what is short is computed at once, and what is long in turns', async (t) => {
  const turns = new Turns(false)
  let [turn, isRunning] = [0, true]
  const count = () => {
    turn++
    if (isRunning) setImmediate(count)
  }
  setImmediate(count)
  const seen: number[] = []
  function* steps(number: number) {
    for (let step = 0; step < number; step++) {
      seen.push(turn)
      compute(0.3)
      yield
    }
    return number
  }
  t.equal(await turns.finish({ address: '192.0.2.1' }, steps(0)), 0)
  t.equal(turn, 0, 'before the event loop turns')
  const results = await Promise.all(
    [1, 2].map((last) => turns.finish({ address: `192.0.2.${last}` }, steps(30))),
  )
  isRunning = false
  t.same(results, [30, 30])
  const inOneTurn = [...Map.groupBy(seen, (at) => at).values()].map(({ length }) => length)
  t.ok(Math.max(...inOneTurn) <= 6, `${inOneTurn}: one of each at first, and a millisecond of one`)
  const gone = AbortSignal.abort(new Error('gone'))
  await t.rejects(turns.finish({ address: 'a', signal: gone }, steps(30)), { message: 'gone' })
})

t.test('what a client reads, it reads outside its turn', async (t) => {
  const turns = new Turns(false)
  const order: string[] = []
  const read = Promise.withResolvers<void>()
  const reader = turns.run({ address: 'a' }, () => {
    if (order.push('a') === 1)
      return async () => {
        order.push('reads')
        await read.promise
      }
    return true
  })
  await turns.run({ address: 'b' }, () => order.push('b') === 3)
  read.resolve()
  await reader
  t.same(order, ['a', 'reads', 'b', 'a'])
})

t.test('an address that asks without end keeps nobody else out, and ends nothing that runs', async (t) => {
  const turns = new Turns(false)
  let [isHeld, running] = [true, 0]
  const flood = Array.from({ length: 300 }, () => {
    let isRunning = false
    return turns.run({ address: '192.0.2.1' }, () => {
      if (!isRunning) running++
      isRunning = true
      return !isHeld
    })
  })
  const ends = Promise.allSettled(flood)
  // The queue is full: for each of these, the busiest client loses one that has not begun.
  const others = Array.from({ length: 160 }, (_, index) =>
    Array.from({ length: 6 }, () => turns.run({ address: `192.0.2.${index + 2}` }, () => !isHeld)),
  )
  const otherEnds = Promise.allSettled(others.flat())
  let steps = 0
  await turns.run({ address: '192.0.2.250' }, () => ++steps === 3)
  t.equal(steps, 3)
  t.equal(running, 1)
  isHeld = false
  const [first, ...rest] = await ends
  t.equal(first?.status, 'fulfilled', 'it had begun')
  const refused = rest.filter((end) => end.status === 'rejected')
  t.ok(refused.length > 49, `one runs and 250 wait, until others come: ${refused.length} refused`)
  for (const { reason } of refused) t.type(reason, QueueFull)
  t.ok((await otherEnds).every(({ status }) => status === 'fulfilled'))
})

t.test('who has disconnected, or whose step fails, leaves its turn', async (t) => {
  const turns = new Turns(true)
  const gone = new AbortController()
  gone.abort(new Error('gone'))
  await t.rejects(
    turns.run({ address: 'a', signal: gone.signal }, () => true),
    { message: 'gone' },
  )
  await t.rejects(
    turns.run({ address: 'a' }, () => {
      throw new Error('failed')
    }),
    { message: 'failed' },
  )
  await turns.run({ address: 'a' }, () => true)
})
