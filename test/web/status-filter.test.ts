import t from 'tap'
import { filterQuery, readFilter } from '../../src/web/parts/status-filter.ts'

t.test('a filter takes a whole context, and cuts longer texts between characters', (t) => {
  const context = 'ci/a'.padEnd(255, 'x').replaceAll('x', '😀')
  t.equal(readFilter({ q: context }).q, context)
  const cut = readFilter({ q: `${context}😀` })
  t.equal(cut.q, context)
  t.equal(new URLSearchParams(filterQuery(cut)).get('q'), context)
  t.end()
})
