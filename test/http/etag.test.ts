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
})
