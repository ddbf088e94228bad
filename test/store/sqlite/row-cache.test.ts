import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { RowCache } from '../../../src/store/sqlite/row-cache.ts'
import { MEGABYTE, shareOfMemory } from '../../../src/util/memory.ts'

const rowsOf = (characters: number) => [{ description: 'x'.repeat(characters) }]

t.test('rows are kept within bounds, however large each is', async (t) => {
  const cache = new RowCache(10_000)
  for (const key of ['a', 'b', 'c']) cache.set(key, '', rowsOf(2_000))
  t.equal(cache.get('a'), undefined, 'the oldest is gone')
  t.ok(cache.get('b') && cache.get('c'))

  cache.drop('b')
  cache.set('b', '', rowsOf(1))
  cache.set('d', '', rowsOf(2_000))
  t.ok(cache.get('b') && cache.get('c') && cache.get('d'), 'dropped rows do not count towards the limit')
  cache.drop('c')
  cache.set('e', '', rowsOf(2_000))
  t.ok(cache.get('b') && cache.get('d') && cache.get('e'))

  cache.set('huge', '', rowsOf(10_000))
  t.equal(cache.get('huge'), undefined)
  t.ok(cache.get('e'), 'rows that exceed the limit alone evict nothing')
  cache.clear()
  cache.set('f', '', rowsOf(4_000))
  t.ok(cache.get('f'))
})

t.test('long keys and variants count towards the limit, also where no row was found', async (t) => {
  const cache = new RowCache(10_000)
  const ids = (letter: string) => letter.repeat(2_000)
  for (const letter of ['a', 'b', 'c']) cache.set(letter, ids(letter), [])
  t.equal(cache.get('a', ids('a')), undefined, 'the oldest is gone')
  t.ok(cache.get('b', ids('b')) && cache.get('c', ids('c')))
  for (const letter of ['d', 'e']) cache.set(ids(letter), '', [])
  t.equal(cache.get('b', ids('b')), undefined)
  t.ok(cache.get(ids('d')) && cache.get(ids('e')))
})

t.test('the parts of a key are forgotten together', async (t) => {
  const cache = new RowCache(10_000)
  for (const part of ['1', '2']) cache.set('a', part, rowsOf(1_200))
  cache.set('b', '1', rowsOf(1_200))
  t.ok(cache.get('a', '1') && cache.get('a', '2') && cache.get('b', '1'))
  t.equal(cache.get('b', '2'), undefined)
  cache.drop('a')
  t.same([cache.get('a', '1'), cache.get('a', '2')], [undefined, undefined])
  t.ok(cache.get('b', '1'))
  for (const part of ['1', '2', '3']) cache.set('c', part, rowsOf(1_200))
  t.equal(cache.get('b', '1'), undefined, 'all of them count')
  t.ok(cache.get('c', '1'))
  cache.set('c', '4', rowsOf(1_200))
  t.equal(cache.get('c', '1'), undefined, 'a key that has grown too large is forgotten too')
})

t.test('rows that were read twice at once are the first ones, and count once', async (t) => {
  const cache = new RowCache(10_000)
  const first = rowsOf(1_200)
  for (const rows of [first, rowsOf(1_200), rowsOf(1_200), rowsOf(1_200)]) cache.set('a', '', rows)
  t.equal(cache.get('a'), first)
})

t.test('caches are smaller where memory is short, and take less than half of it', async (t) => {
  const limits = [256, 512, 2048, 65_536]
  const shares = limits.map((limit) => shareOfMemory(64, limit * MEGABYTE) / MEGABYTE)
  t.same(shares, [8, 16, 64, 64])

  const source = resolve(import.meta.dirname, '../../../src')
  const texts = globSync('**/*.ts', { cwd: source }).map((path) =>
    readFileSync(resolve(source, path), 'utf8'),
  )
  const megabytes = [...texts.join().matchAll(/shareOfMemory\((\d+)\)/g)].map(([, found]) => Number(found))
  t.ok(megabytes.length > 10)
  t.ok(megabytes.reduce((sum, some) => sum + some) < 1024, 'of 2 GB')
})
