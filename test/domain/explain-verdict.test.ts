import { test } from 'tap'
import { explainVerdict } from '../../src/domain/verdict.ts'

const describeUnmetChecks = (...args: Parameters<typeof explainVerdict>) => explainVerdict(...args).reason

test('unmet checks are named in one line', async (t) => {
  const status = (context: string, state: 'pending' | 'success' | 'failure' | 'error') => ({ context, state })
  const reported = [status('ci/mac', 'error'), status('ci/test', 'success'), status('docs', 'failure')]
  t.equal(describeUnmetChecks(reported, ['ci/test']), null)
  t.equal(describeUnmetChecks(reported, ['ci/*']), 'ci/mac reported error')
  t.equal(describeUnmetChecks(reported, ['lint', 'ci/*']), 'ci/mac reported error, lint has not reported')
  t.equal(describeUnmetChecks([], ['a\n\u202e\u001b[1m']), 'a\ufffd\ufffd\ufffd[1m has not reported')
  t.equal(describeUnmetChecks([], ['  ']), '"  " has not reported')
  t.equal(describeUnmetChecks([], ['🚀'.repeat(255)]), `${'🚀'.repeat(99)}… has not reported`)
  const many = ['a', 'b', 'c', 'd', 'e']
  t.equal(
    describeUnmetChecks([status('c', 'pending')], many),
    'a has not reported, b has not reported, d has not reported, and 2 more',
  )
  const reasonOf = (count: number) => describeUnmetChecks([], many.slice(0, count))
  t.equal(reasonOf(3), 'a has not reported, b has not reported, c has not reported', 'nothing is left out')
  t.match(reasonOf(4), /c has not reported, and 1 more$/)
  t.match(explainVerdict([status('c', 'failure')], many), {
    verdict: 'failure',
    reason: 'c reported failure, a has not reported, b has not reported, and 2 more',
  })
})
