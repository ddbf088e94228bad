import t from 'tap'
import { truncate } from '../../src/util/truncate.ts'

t.test('counts code points, the ellipsis included', async (t) => {
  t.equal(truncate('', 3), '')
  t.equal(truncate('abc', 3), 'abc')
  t.equal(truncate('abcd', 3), 'ab…')
  t.equal(truncate('😀'.repeat(3), 3), '😀😀😀')
  t.equal(truncate('😀'.repeat(4), 3), '😀😀…')
  t.equal(truncate(`a${'😀'.repeat(3)}`, 3), 'a😀…')
  t.equal(truncate('x'.repeat(1_000_000), 3), 'xx…')
})
