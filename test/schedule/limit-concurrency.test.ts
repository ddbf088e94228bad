import t from 'tap'
import { limitConcurrency } from '../../src/schedule/limit-concurrency.ts'

t.test('runs at most the given number of tasks at a time, in order', async (t) => {
  const inTurn = limitConcurrency(2)
  const started: number[] = []
  const gates = Array.from({ length: 5 }, () => Promise.withResolvers<void>())
  const results = gates.map(({ promise }, index) =>
    inTurn(async () => {
      started.push(index)
      await promise
      if (index === 1) throw new Error('failed')
      return index
    }),
  )
  t.same(started, [0, 1])
  gates[1]?.resolve()
  await t.rejects(async () => void (await results[1]), { message: 'failed' })
  t.same(started, [0, 1, 2], 'a failed task lets the next one start')
  for (const { resolve } of gates) resolve()
  t.same(await Promise.all([0, 2, 3, 4].map((index) => results[index])), [0, 2, 3, 4])
  t.same(started, [0, 1, 2, 3, 4])
})
