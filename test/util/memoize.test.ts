import t from 'tap'
import { boundedMemoize, memoizePromise } from '../../src/util/memoize.ts'

t.test('results are kept up to a limit', async (t) => {
  const made: number[] = []
  const double = boundedMemoize(2, (key: number) => {
    made.push(key)
    return 2 * key
  })
  for (const key of [1, 2, 1, 2, 3, 3, 1]) t.equal(double(key), 2 * key)
  t.same(made, [1, 2, 3, 1], 'the third one empties it')
})

t.test('memoizes a promise until it is rejected', async (t) => {
  let calls = 0
  const get = memoizePromise(async () => {
    if (++calls === 1) throw new Error('no file is free')
    return calls
  })
  const first = [get(), get()]
  for (const one of first) await t.rejects(one)
  t.same([await get(), await get(), calls], [2, 2, 2])
})
