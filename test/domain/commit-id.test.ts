import t from 'tap'
import { commitIdLength, isFullId, isShortId, shortId } from '../../src/domain/commit-id.ts'

const SHA1 = '0123456789abcdef0123456789abcdef01234567'
const SHA256 = SHA1.padEnd(64, 'f')

t.test('a full id has the length of the format, in lower case', async (t) => {
  t.equal(commitIdLength('sha1'), 40)
  t.equal(commitIdLength('sha256'), 64)
  t.ok(isFullId(SHA1) && isFullId(SHA256) && isFullId(SHA1, 'sha1') && isFullId(SHA256, 'sha256'))
  for (const text of [SHA1.toUpperCase(), SHA1.slice(1), `${SHA1}0`, `g${SHA1.slice(1)}`, `${SHA1}\n`, ''])
    t.notOk(isFullId(text), text)
  t.notOk(isFullId(SHA256, 'sha1') || isFullId(SHA1, 'sha256'))
})

t.test('a short id has 7 or more digits, and not the length of a full one', async (t) => {
  t.equal(shortId(SHA1), '0123456')
  t.ok(isShortId(shortId(SHA1), 'sha1') && isShortId(SHA1.slice(0, 39).toUpperCase(), 'sha1'))
  t.ok(isShortId(SHA256.slice(0, 41), 'sha256'))
  for (const text of [SHA1.slice(0, 6), SHA1, 'abcdefg']) t.notOk(isShortId(text, 'sha1'), text)
  t.notOk(isShortId(SHA1, 'sha256'), 'a full id of the other format')
})
