import t from 'tap'
import { RowCache } from '../../../src/store/sqlite/row-cache.ts'

const rowsOf = (characters: number) => [{ description: 'x'.repeat(characters) }]

t.test('rows are kept within bounds, however large each is', async (t) => {
  const cache = new RowCache(10_000)
  for (const key of ['a', 'b', 'c']) cache.set(key, rowsOf(2_000))
  t.equal(cache.get('a'), undefined, 'the oldest is gone')
  t.ok(cache.get('b') && cache.get('c'))

  cache.set('b', rowsOf(1))
  cache.set('d', rowsOf(2_000))
  t.ok(cache.get('b') && cache.get('c') && cache.get('d'), 'what is replaced or dropped counts no longer')
  cache.drop('c')
  cache.set('e', rowsOf(2_000))
  t.ok(cache.get('b') && cache.get('d') && cache.get('e'))

  cache.set('huge', rowsOf(10_000))
  t.equal(cache.get('huge'), undefined)
  t.ok(cache.get('e'), 'what is too large by itself drives nothing out')
  cache.clear()
  cache.set('f', rowsOf(4_000))
  t.ok(cache.get('f'))
})
