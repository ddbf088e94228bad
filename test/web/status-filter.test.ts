import t from 'tap'
import { readFilter } from '../../src/web/statuses/status-filter.ts'

t.test('a filter takes a whole context, and cuts longer texts between characters', (t) => {
  const context = 'ci/a'.padEnd(255, 'x').replaceAll('x', '😀')
  t.equal(readFilter({ q: context }).q, context)
  t.equal(readFilter({ q: `${context}😀` }).q, context)
  t.end()
})
