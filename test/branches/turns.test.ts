import t from 'tap'
import { Turns } from '../../src/branches/turns.ts'
import { QueueFull } from '../../src/util/fair-queue.ts'

/** Keeps the event loop busy, as a step that computes does. */
function compute(milliseconds: number): void {
  const end = performance.now() + milliseconds
  while (performance.now() < end);
}

t.test('one of 16 addresses computes in a turn of the event loop, and they take turns', async (t) => {
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
    Array.from({ length: 16 }, async (_, index) => {
      const address = `192.0.2.${index}`
      let steps = 0
      await turns.run({ address }, () => {
        const last = slices.at(-1)
        if (last?.address !== address || last.turn !== turn) slices.push({ address, turn })
        compute(3)
        return ++steps === 6
      })
    }),
  )
  isRunning = false
  t.equal(new Set(slices.map((slice) => slice.turn)).size, slices.length, 'never two in one turn')
  t.same(
    slices.slice(0, 32).map(({ address }) => address),
    [0, 1].flatMap(() => Array.from({ length: 16 }, (_, index) => `192.0.2.${index}`)),
  )
})

t.test('an address that asks without end keeps nobody else out', async (t) => {
  const turns = new Turns(false)
  let isHeld = true
  const flood = Array.from({ length: 300 }, () =>
    turns.run({ address: '192.0.2.1' }, async () => {
      await new Promise(setImmediate)
      return !isHeld
    }),
  )
  const ends = Promise.allSettled(flood)
  let steps = 0
  await turns.run({ address: '192.0.2.2' }, () => ++steps === 3)
  t.equal(steps, 3)
  isHeld = false
  const refused = (await ends).filter((end) => end.status === 'rejected')
  t.ok(refused.length >= 49, 'one works and 250 wait')
  for (const { reason } of refused) t.type(reason, QueueFull)
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
