import t from 'tap'
import { boundedMemoize } from '../../src/util/memoize.ts'

t.test('results are kept up to a limit', async (t) => {
  const made: number[] = []
  const double = boundedMemoize(2, (key: number) => {
    made.push(key)
    return 2 * key
  })
  for (const key of [1, 2, 1, 2, 3, 3, 1]) t.equal(double(key), 2 * key)
  t.same(made, [1, 2, 3, 1], 'the third one empties it')
})
