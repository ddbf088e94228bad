import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Batches } from '../../src/schedule/batches.ts'
import { until } from '../helpers/until.ts'

/** Returns batches that end when they are told to. */
function controlled(options: {
  size?: number
  width?: number
  slowAfter?: number
  mayJoin?(call: number): boolean
}) {
  const begun: number[][] = []
  const ends: (() => void)[] = []
  const batches = new Batches<number>({
    ...options,
    run(batch) {
      begun.push(batch)
      return new Promise((resolve) => ends.push(resolve))
    },
  })
  return { batches, begun, end: () => ends.shift()?.() }
}

t.test('calls of a turn share a batch, and later ones wait for it', async (t) => {
  const { batches, begun, end } = controlled({})
  t.equal(batches.isIdle, true)
  for (const call of [1, 2, 3]) batches.add(call)
  t.same(begun, [], 'not before the end of the turn')
  t.equal(batches.waiting, 3)
  await setImmediate()
  t.same(begun, [[1, 2, 3]])
  t.same([batches.waiting, batches.isIdle], [0, false])
  batches.add(4)
  await setImmediate()
  batches.add(5)
  await setImmediate()
  t.equal(begun.length, 1)
  t.equal(batches.waiting, 2)
  end()
  await setImmediate()
  await setImmediate()
  t.same(begun, [
    [1, 2, 3],
    [4, 5],
  ])
})

t.test('no more batches than allowed are under way, and none is larger', async (t) => {
  const { batches, begun, end } = controlled({ size: 2, width: 2 })
  for (const call of [1, 2, 3, 4, 5]) batches.add(call)
  await setImmediate()
  t.same(begun, [
    [1, 2],
    [3, 4],
  ])
  end()
  await setImmediate()
  await setImmediate()
  t.same(begun.at(-1), [5])
})

t.test('calls that may not join are overtaken and keep their order', async (t) => {
  let isOpen = false
  const { batches, begun, end } = controlled({
    size: 2,
    width: 2,
    mayJoin: (call) => isOpen || call % 2 === 0,
  })
  for (const call of [1, 2, 3, 4]) batches.add(call)
  await setImmediate()
  t.same(begun, [[2, 4]])
  await setImmediate()
  t.equal(begun.length, 1, 'an empty batch does not begin')
  isOpen = true
  batches.add(5)
  await setImmediate()
  t.same(begun.slice(1), [[1, 3]], 'no more than may be in a batch')
  end()
  await setImmediate()
  await setImmediate()
  t.same(begun.at(-1), [5])
  const idle = batches.idle()
  end()
  end()
  await idle
  t.equal(batches.waiting, 0)
})

t.test('a batch that is slow does not keep others from beginning', async (t) => {
  const { batches, begun } = controlled({ size: 1, width: 2, slowAfter: 50 })
  for (const call of [1, 2, 3, 4, 5]) batches.add(call)
  await setImmediate()
  t.same(begun, [[1], [2]])
  await until(() => begun.length > 2)
  t.same(begun, [[1], [2], [3], [4]], 'as many as may be under way')
  await until(() => begun.length > 4)
  t.same(begun.at(-1), [5])
})
