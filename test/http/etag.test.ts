import t from 'tap'
import { etagOf, matchesEtag } from '../../src/http/etag.ts'

t.test('If-None-Match: weak comparison, lists and *', async (t) => {
  const etag = etagOf('a body')
  t.equal(etagOf(Buffer.from('a body')), etag, 'of the bytes')
  t.not(etagOf('another'), etag)
  const strong = etag.slice(2)
  for (const header of [etag, strong, '*', ' * ', ` ${etag} `, `W/"x", ${etag}`, `"x,y",${strong} , "z"`])
    t.ok(matchesEtag(header, etag), header)
  for (const header of [undefined, '', 'W/', strong.slice(1, -1), 'W/"x"', '"*"', etagOf('another')])
    t.notOk(matchesEtag(header, etag), `not ${header}`)
  t.ok(matchesEtag(etag, strong), 'of a strong validator too')
  for (const suffix of ['-gzip', ';gzip', '--gzip', '-br', '-zstd', '-deflate']) {
    const compressed = `${strong.slice(0, -1)}${suffix}"`
    for (const header of [compressed, `W/${compressed}`, `"x", ${compressed}`])
      t.ok(matchesEtag(header, etag), header)
    t.ok(matchesEtag(compressed, compressed), 'a validator that ends like that')
    t.notOk(matchesEtag(strong, compressed))
    t.notOk(matchesEtag(`${strong.slice(0, -1)}${suffix}${suffix}"`, etag), 'twice')
  }
  t.notOk(matchesEtag(`${strong.slice(0, -1)}-x"`, etag))
})
