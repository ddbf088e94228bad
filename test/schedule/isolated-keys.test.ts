import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { IsolatedKeys } from '../../src/schedule/isolated-keys.ts'

t.test('a key that was added is isolated, others and calls without a key are not', async (t) => {
  const keys = new IsolatedKeys(60_000)
  const isolated = () => ['a', 'b', undefined].filter((key) => keys.has(key))
  t.same(isolated(), [])
  keys.add(undefined)
  keys.add('a')
  t.same(isolated(), ['a'])
  keys.add('b')
  keys.add('a')
  t.same(isolated(), ['a', 'b'])
})

t.test('a key is isolated for a while only', async (t) => {
  const keys = new IsolatedKeys(20)
  keys.add('a')
  await setTimeout(30)
  t.equal(keys.has('a'), false)
})
