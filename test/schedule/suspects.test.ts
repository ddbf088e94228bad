import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { Suspects } from '../../src/schedule/suspects.ts'

t.test('a key that was added is suspected, others and calls without a key are not', async (t) => {
  const suspects = new Suspects(60_000)
  const suspected = () => ['a', 'b', undefined].filter((key) => suspects.has(key))
  t.same(suspected(), [])
  suspects.add(undefined)
  suspects.add('a')
  t.same(suspected(), ['a'])
  suspects.add('b')
  suspects.add('a')
  t.same(suspected(), ['a', 'b'])
})

t.test('the suspicion ends', async (t) => {
  const suspects = new Suspects(20)
  suspects.add('a')
  await setTimeout(30)
  t.equal(suspects.has('a'), false)
})
