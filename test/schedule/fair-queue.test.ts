import { setImmediate, setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { Addresses } from '../../src/schedule/addresses.ts'
import { FairQueue, QueueFull } from '../../src/schedule/fair-queue.ts'

const limits = { slots: 2, slotsPerClient: 1, waiting: 6, waitingPerClient: 3, timeout: 5_000 }

/**
 * Enters the queue and records the order of admissions; `leave` releases the slot of the nth
 * admission.
 */
function record(queue: FairQueue) {
  const admitted: string[] = []
  const releases: (() => void)[] = []
  return {
    admitted,
    /** The client is the first letter of the name; `L` marks a long caller. */
    enter: (name: string, signal?: AbortSignal) =>
      queue.enter(name.charAt(0), signal, name.endsWith('L')).then((release) => {
        admitted.push(name)
        releases.push(release)
      }),
    async leave(slot: number) {
      releases[slot]?.()
      await setTimeout()
    },
  }
}

t.test('clients take turns, and callers of one client are admitted in order of arrival', async (t) => {
  const queue = new FairQueue({ ...limits, slotsPerClient: 2, waiting: 10, waitingPerClient: 9 })
  const { admitted, enter, leave } = record(queue)
  const entered = ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2'].map((name) => enter(name))
  await setTimeout()
  t.same(admitted, ['a1', 'a2'])
  for (let slot = 0; slot < 7; slot++) await leave(slot)
  await Promise.all(entered)
  t.same(admitted, ['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2'])
  t.same([queue.taken, queue.waiting], [0, 0])
})

t.test('who has held slots for the fewest seconds lately is next', async (t) => {
  const queue = new FairQueue({ ...limits, slots: 16, slotsPerClient: 2, waiting: 99 })
  const addresses = Array.from({ length: 16 }, (_, index) => `127.0.1.${index}`)
  const held = await Promise.all(addresses.map((address) => queue.enter(address)))
  const admitted: string[] = []
  const wait = async (client: string) => {
    const release = await queue.enter(client)
    admitted.push(client)
    return release
  }
  const waiting = addresses.map(wait)
  await setTimeout(1_100)
  waiting.push(wait('new'), wait('newer'), wait('new'))
  for (const release of held.slice(0, 4)) release()
  await setTimeout()
  t.same(admitted, ['new', 'newer', 'new', '127.0.1.0'], 'it does not wait for the first round of the others')
  for (const release of held) release()
  for (const entered of waiting) (await entered)()
  t.equal(queue.taken, 0)
})

t.test('who holds a slot all the time is admitted too, however many others come', async (t) => {
  const queue = new FairQueue({ ...limits, slotsPerClient: 2, waiting: 99 })
  const { admitted, enter, leave } = record(queue)
  const entered = [enter('company'), enter('0')]
  await setTimeout(1_100)
  entered.push(enter('company'))
  for (let other = 1; other < 9; other++) {
    entered.push(enter(`${other}`))
    await leave(other)
  }
  t.same(admitted, ['company', '0', '1', '2', '3', 'company', '4', '5', '6', '7'])
  for (const slot of [0, 9, 10]) await leave(slot)
  await Promise.all(entered)
  t.equal(queue.taken, 0)
})

t.test('one client never holds more than its share, even if slots are free', async (t) => {
  const queue = new FairQueue(limits)
  const { admitted, enter, leave } = record(queue)
  const entered = ['a1', 'a2', 'a3', 'b1'].map((name) => enter(name))
  await setTimeout()
  t.same(admitted, ['a1', 'b1'])
  await leave(1)
  t.same(admitted, ['a1', 'b1'], 'the slot of another client stays free')
  await leave(0)
  await leave(0)
  t.same(admitted, ['a1', 'b1', 'a2'], 'releasing a slot twice frees one slot')
  await leave(2)
  await Promise.all(entered)
  t.same(admitted.at(-1), 'a3')
})

t.test('long callers have slots of their own, and others pass those that wait', async (t) => {
  const long = { slots: 2, slotsPerClient: 1 }
  const queue = new FairQueue({ ...limits, slots: 4, slotsPerClient: 2, waiting: 10, long })
  const { admitted, enter, leave } = record(queue)
  const names = ['a1L', 'a2L', 'a3', 'b1L', 'c1L', 'c2']
  const entered = names.map((name) => enter(name))
  await setTimeout()
  t.same(admitted, ['a1L', 'a3', 'b1L', 'c2'])
  await leave(1)
  t.equal(admitted.length, 4, 'a slot is free, but none for long callers')
  await leave(2)
  t.same(admitted.slice(4), ['c1L'])
  await leave(0)
  await Promise.all(entered)
  t.same(admitted.slice(5), ['a2L'])
  for (const slot of [3, 4, 5]) await leave(slot)
  t.same([queue.taken, queue.waiting], [0, 0])
})

t.test('what a long caller held goes to a caller of its client and to a long one of another', async (t) => {
  const long = { slots: 1, slotsPerClient: 1 }
  const queue = new FairQueue({ ...limits, slots: 3, long })
  const { admitted, enter, leave } = record(queue)
  const entered = ['aL', 'a', 'bL'].map((name) => enter(name))
  await setTimeout()
  t.same(admitted, ['aL'])
  await leave(0)
  t.same(admitted, ['aL', 'a', 'bL'])
  await Promise.all(entered)
})

interface Caller {
  client: string
  isLong: boolean
  gone: AbortController
  release(): void
}

const anyLimits = fc.record({
  slots: fc.integer({ min: 1, max: 6 }),
  slotsPerClient: fc.integer({ min: 1, max: 3 }),
  long: fc.record({
    slots: fc.integer({ min: 1, max: 3 }),
    slotsPerClient: fc.integer({ min: 1, max: 2 }),
  }),
})
const steps = fc.array(
  fc.record({
    action: fc.constantFrom('enter', 'enter long', 'leave', 'give up'),
    client: fc.constantFrom('a', 'b', 'c'),
    which: fc.nat(9),
  }),
  { minLength: 30, maxLength: 60 },
)

t.test('nobody waits who could have a slot, and nobody has more than the limits allow', async (t) => {
  let admissions = 0
  const property = fc.asyncProperty(anyLimits, steps, async (limits, history) => {
    const queue = new FairQueue(limits)
    const [waiting, holding] = [new Set<Caller>(), new Set<Caller>()]
    const mayHold = ({ client, isLong }: Caller) => {
      const all = [...holding]
      const own = all.filter((holder) => holder.client === client)
      const areLong = (holders: Caller[]) => holders.filter((holder) => holder.isLong).length
      if (all.length >= limits.slots || own.length >= limits.slotsPerClient) return false
      return !isLong || (areLong(all) < limits.long.slots && areLong(own) < limits.long.slotsPerClient)
    }
    for (const { action, client, which } of history) {
      const some = [...(action === 'leave' ? holding : waiting)]
      const chosen = some[which % some.length]
      if (action === 'leave' && chosen) {
        holding.delete(chosen)
        chosen.release()
      } else if (action === 'give up') chosen?.gone.abort(new Error('gone'))
      else if (action !== 'leave') {
        const isLong = action === 'enter long'
        const caller: Caller = { client, isLong, gone: new AbortController(), release: () => {} }
        waiting.add(caller)
        const admit = (release: () => void) => {
          if (!mayHold(caller)) throw new Error(`${client} holds too much`)
          caller.release = release
          waiting.delete(caller)
          holding.add(caller)
          admissions++
        }
        queue.enter(client, caller.gone.signal, isLong).then(admit, () => waiting.delete(caller))
      }
      await setImmediate()
      for (const caller of waiting)
        if (mayHold(caller)) throw new Error(`${caller.client} waits, and could have a slot`)
    }
    for (const { gone } of waiting) gone.abort(new Error('the test ends'))
  })
  await fc.assert(property, { numRuns: 100 })
  t.ok(admissions > 500, `${admissions} admissions`)
})

t.test('the queue is bounded, in total and for each client', async (t) => {
  const queue = new FairQueue(limits)
  const { admitted, enter, leave } = record(queue)
  const entered = ['a1', 'b1', 'a2', 'a3', 'a4'].map((name) => enter(name))
  await t.rejects(enter('a5'), QueueFull, 'full for this client')
  entered.push(...['b2', 'b3', 'c1'].map((name) => enter(name)))
  t.equal(queue.waiting, 6)
  await t.rejects(enter('b4'), QueueFull, 'full in total, and no client has more waiting')
  for (let slot = 0; slot < 8; slot++) await leave(slot)
  await Promise.all(entered)
  t.same([queue.taken, queue.waiting, admitted.length], [0, 0, 8])
})

t.test('in a full queue the client with the most callers loses one', async (t) => {
  const queue = new FairQueue({ ...limits, waitingPerClient: 6 })
  const { admitted, enter, leave } = record(queue)
  const entered = ['a1', 'b1', 'a2', 'a3', 'a4', 'a5', 'b2', 'b3'].map((name) => enter(name))
  const refused = entered.splice(4, 2)
  const c2 = [enter('c1'), enter('c2')]
  for (const last of refused) await t.rejects(last, QueueFull)
  t.equal(queue.waiting, 6)
  await t.rejects(enter('a6'), QueueFull)
  await t.rejects(enter('c3'), QueueFull, 'no client has more callers waiting')
  for (let slot = 0; slot < 8; slot++) await leave(slot)
  await Promise.all([...entered, ...c2])
  t.same(admitted, ['a1', 'b1', 'a2', 'b2', 'c1', 'a3', 'b3', 'c2'])
  t.same([queue.taken, queue.waiting], [0, 0])
})

t.test('a caller that aborts or times out leaves the queue', async (t) => {
  const queue = new FairQueue({ ...limits, timeout: 20 })
  const { admitted, enter, leave } = record(queue)
  await enter('a1')
  const gone = new AbortController()
  const aborted = enter('a2', gone.signal)
  gone.abort(new Error('gone'))
  await t.rejects(aborted, { message: 'gone' })
  await t.rejects(enter('a3', gone.signal), { message: 'gone' }, 'an aborted signal is not even queued')
  await t.rejects(enter('a4'), QueueFull)
  t.same([queue.taken, queue.waiting], [1, 0])
  await leave(0)
  await enter('a5')
  t.same(admitted, ['a1', 'a5'])
})

t.test('a client gains no slot by releasing twice, or by leaving and entering again', async (t) => {
  const queue = new FairQueue({ ...limits, slotsPerClient: 2 })
  const { admitted, enter, leave } = record(queue)
  const release = await queue.enter('a')
  await enter('a1')
  const others = [enter('b1'), enter('c1')]
  release()
  release()
  await setTimeout()
  t.same([admitted, queue.taken], [['a1', 'b1'], 2])

  const gone = new AbortController()
  const aborted = enter('a2', gone.signal)
  gone.abort(new Error('gone'))
  await t.rejects(aborted, { message: 'gone' })
  const again = enter('a3')
  await leave(0)
  t.same(admitted, ['a1', 'b1', 'c1'], 'behind who waited before')
  await leave(1)
  await Promise.all([...others, again])
  t.same([admitted.at(-1), queue.taken], ['a3', 2])
})

t.test('all callers of a client can be dismissed', async (t) => {
  const queue = new FairQueue({ ...limits, slots: 1 })
  const { admitted, enter, leave } = record(queue)
  await enter('a1')
  const waiting = [enter('a2'), enter('a3')]
  const other = enter('b1')
  queue.dismiss('a', new Error('dismissed'))
  for (const caller of waiting) await t.rejects(caller, { message: 'dismissed' })
  queue.dismiss('c', new Error('no caller of c waits'))
  await leave(0)
  await other
  t.same(admitted, ['a1', 'b1'])
  await leave(1)
  t.same([queue.taken, queue.waiting], [0, 0])
})

t.test('run releases its slot after success and failure', async (t) => {
  const queue = new FairQueue({ ...limits, slots: 1 })
  t.equal(await queue.run({ address: 'a' }, async () => 'done'), 'done')
  await t.rejects(
    queue.run({ address: 'a' }, async () => Promise.reject(new Error('failed'))),
    { message: 'failed' },
  )
  t.equal(queue.taken, 0)
})

t.test(
  'slots that a client gives up are of use to its own callers, and to those with a share left',
  async (t) => {
    const long = { slots: 2, slotsPerClient: 1 }
    const queue = new FairQueue({ ...limits, slots: 5, slotsPerClient: 2, long, waiting: 9 })
    const { enter } = record(queue)
    const waitingFor = () => ['a', 'b', 'c'].map((client) => queue.waitingFor(client))
    await Promise.all(['a1', 'aL', 'bL', 'c1'].map((name) => enter(name)))
    const waiting = [enter('a2'), enter('a3')]
    t.same(waitingFor(), [2, 0, 0], 'a slot is free')
    await enter('b1')
    t.same(waitingFor(), [2, 0, 0], 'who waits has its whole share')
    waiting.push(enter('c2'), enter('c3'))
    t.same(waitingFor(), [3, 1, 2], 'but another one only half of it')
    waiting.push(enter('dL'))
    t.same(waitingFor(), [3, 1, 2], 'a long one needs that of a long one')
    t.same([queue.waitingFor('a', true), queue.waitingFor('b', true)], [4, 2])
    waiting.push(enter('dL'))
    t.same(
      [queue.waitingFor('a', true), queue.waitingFor('b', true)],
      [4, 2],
      'but another one only one of two',
    )
    for (const client of ['a', 'c', 'd']) queue.dismiss(client, new Error('the test ends'))
    for (const caller of waiting) await t.rejects(caller, { message: 'the test ends' })
  },
)

t.test('a queue of turns admits one caller of each client in a turn of the event loop', async (t) => {
  const queue = new FairQueue({ slots: 1, slotsPerClient: 1, oncePerTurn: true })
  const turns: number[] = []
  let turn = 0
  const runs = ['a', 'b', 'a'].map((address) => queue.run({ address }, () => turns.push(turn)))
  while (queue.taken > 0) {
    await setImmediate()
    turn++
  }
  await Promise.all(runs)
  t.equal(new Set(turns).size, 3)
})

t.test(
  'what several clients wait for has the turn of any of them, and is refused when all are',
  async (t) => {
    const queue = new FairQueue({ ...limits, timeout: 60_000, waitingPerClient: 1 })
    const addresses = new Addresses()
    const removeA = addresses.add('a')
    addresses.add('a')
    const stop = new AbortController()
    const run = () => queue.run({ address: addresses, signal: stop.signal }, async () => queue.taken)
    t.equal(await run(), 1, 'at once')

    const releases = await Promise.all(['a', 'b'].map((client) => queue.enter(client)))
    const waiting = run()
    addresses.add('b')
    addresses.add('c')()
    await setTimeout()
    removeA()
    await setTimeout()
    t.equal(queue.waiting, 1)
    await t.rejects(run(), QueueFull, 'all of them wait already')
    releases[1]?.()
    t.equal(await waiting, 2, 'in the turn of the one that came later')
    t.same([queue.taken, queue.waiting], [1, 0])

    releases.push(await queue.enter('c'))
    const aborted = run()
    await setTimeout()
    t.equal(queue.waiting, 1)
    queue.dismiss('a', new Error('dismissed'))
    stop.abort(new Error('stopped'))
    await t.rejects(aborted, { message: 'stopped' })
    await t.rejects(run(), { message: 'stopped' })
    for (const release of releases) release()
    t.same([queue.taken, queue.waiting], [0, 0])

    const short = new FairQueue({ ...limits, timeout: 50 })
    const releaseShort = await Promise.all(['a', 'b'].map((client) => short.enter(client)))
    await t.rejects(
      short.run({ address: addresses }, () => 0),
      { message: 'no slot became free in time' },
    )
    for (const release of releaseShort) release()
    t.same([short.taken, short.waiting], [0, 0])
  },
)

t.test('what several clients wait for takes one place in the queue, and one slot', async (t) => {
  const queue = new FairQueue({ ...limits, slots: 3, waiting: 2 })
  const held = await Promise.all(['a', 'b'].map((client) => queue.enter(client)))
  const addresses = new Addresses()
  const [removeA] = ['a', 'b'].map((client) => addresses.add(client))
  const ended = Promise.withResolvers<void>()
  const run = queue.run({ address: addresses }, () => ended.promise)
  await setTimeout()
  t.equal(queue.waiting, 1)
  const stop = new AbortController()
  const other = queue.enter('b', stop.signal)
  t.equal(queue.waiting, 2, 'another caller has a place')
  await t.rejects(queue.enter('b'), QueueFull)
  removeA?.()
  await setTimeout()
  t.equal(queue.waiting, 2, 'one of its clients has left')
  addresses.add('a')
  stop.abort(new Error('stopped'))
  await t.rejects(other, { message: 'stopped' })
  t.equal(queue.waiting, 1)

  // Both clients are admitted before either of them is known to be.
  for (const release of held) release()
  await setTimeout()
  t.same([queue.taken, queue.waiting], [1, 0])
  ended.resolve()
  await run
  t.equal(queue.taken, 0)
})

t.test(
  'who comes when the queue is full takes no turn from callers that would keep their place',
  async (t) => {
    const queue = new FairQueue({ ...limits, slots: 2, waiting: 2 })
    const held = await Promise.all(['a', 'b'].map((client) => queue.enter(client)))
    const runs = [0, 1].map(() => {
      const address = new Addresses()
      for (const client of ['a', 'b']) address.add(client)
      return queue.run({ address }, async () => {})
    })
    await setTimeout()
    await t.rejects(queue.enter('c'), QueueFull)
    queue.dismiss('b', new Error('dismissed'))
    for (const release of held) release()
    await Promise.all(runs)
  },
)
