import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { runInSlices } from '../../src/util/run-in-slices.ts'

/** Returns a step that blocks the event loop for about a millisecond. */
function work(steps: number, onStep: () => void): () => boolean {
  let done = 0
  return () => {
    const end = performance.now() + 1
    while (performance.now() < end);
    onStep()
    return ++done < steps
  }
}

t.test('calls a step until it returns false', async (t) => {
  let steps = 0
  await runInSlices(work(3, () => steps++))
  t.equal(steps, 3)
})

t.test('does not block the event loop, and concurrent tasks take turns', async (t) => {
  const order: string[] = []
  let turns = 0
  let running = true
  const turn = async () => {
    while (running) {
      await setImmediate()
      turns++
    }
  }
  const turning = turn()
  await Promise.all(['a', 'b'].map((name) => runInSlices(work(30, () => order.push(name)))))
  running = false
  await turning
  t.ok(turns >= 4, `${turns} turns`)
  t.ok(order.lastIndexOf('a') > order.indexOf('b'), 'b starts before a has ended')
})

t.test('an error ends one task and no other', async (t) => {
  await t.rejects(
    runInSlices(() => {
      throw new Error('broken')
    }),
    { message: 'broken' },
  )
  let steps = 0
  await runInSlices(work(2, () => steps++))
  t.equal(steps, 2)
})
