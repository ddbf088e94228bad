import { test } from 'tap'
import { branchVerdict, ruledBranches } from '../../src/domain/branch-verdicts.ts'
import { requiredContexts } from '../../src/domain/required-contexts.ts'
import { explainVerdict } from '../../src/domain/unmet-checks.ts'

const describeUnmetChecks = (...args: Parameters<typeof explainVerdict>) => explainVerdict(...args).reason

const rule = (branchPattern: string, ...required: string[]) => ({
  branchPattern,
  required,
  bypass: [],
})

test('required contexts name the branches whose rules require them', async (t) => {
  t.same(requiredContexts([], ['ci/test']), { reported: new Map(), missing: new Map() })
  const rules = [rule('main', 'ci/*', 'ci/test', 'lint', 'e2e'), rule('release/*', 'ci/test', 'e2e')]
  const { reported, missing } = requiredContexts(rules, ['ci/test', 'ci/mac', 'lint', 'docs'])
  t.same(
    [...reported],
    [
      ['ci/test', ['main', 'release/*']],
      ['ci/mac', ['main']],
      ['lint', ['main']],
    ],
  )
  t.same([...missing], [['e2e', ['main', 'release/*']]])
})

test('unmet checks are named in one line', async (t) => {
  const status = (context: string, state: 'pending' | 'success' | 'failure' | 'error') => ({ context, state })
  const reported = [status('ci/mac', 'error'), status('ci/test', 'success'), status('docs', 'failure')]
  t.equal(describeUnmetChecks(reported, ['ci/test']), null)
  t.equal(describeUnmetChecks(reported, ['ci/*']), 'ci/mac reported error')
  t.equal(describeUnmetChecks(reported, ['lint', 'ci/*']), 'ci/mac reported error, lint has not reported')
  t.equal(describeUnmetChecks([], ['a\n\u202e\u001b[1m']), 'a\ufffd\ufffd\ufffd[1m has not reported')
  t.equal(describeUnmetChecks([], ['🚀'.repeat(255)]), `${'🚀'.repeat(99)}… has not reported`)
  const many = ['a', 'b', 'c', 'd', 'e']
  t.equal(
    describeUnmetChecks([status('c', 'pending')], many),
    'a has not reported, b has not reported, d has not reported, and 2 more',
  )
  const reasonOf = (count: number) => describeUnmetChecks([], many.slice(0, count))
  t.equal(reasonOf(3), 'a has not reported, b has not reported, c has not reported', 'nothing is left out')
  t.match(reasonOf(4), /c has not reported, and 1 more$/)
  t.same(explainVerdict([status('c', 'failure')], many), {
    verdict: 'failure',
    reason: 'c reported failure, a has not reported, b has not reported, and 2 more',
  })
})

test('a commit has a verdict for each branch with rules that it may go to', async (t) => {
  const rules = [rule('main', 'lint'), rule('release/*', 'e2e', 'lint'), rule('*', 'ci/*')]
  t.same(ruledBranches([rule('main', 'lint')], ['feature', 'main', 'main', null]), ['main'])
  t.same(ruledBranches([rule('main', 'lint'), rule('release/*', 'e2e')], ['release/2', undefined]), [
    'release/2',
    'main',
  ])
  t.same(ruledBranches(rules, []), ['main', 'release/*', '*'])
  t.same(ruledBranches([], ['main']), [])
  const reported = [
    { context: 'ci/test', state: 'success' as const },
    { context: 'lint', state: 'success' as const },
  ]
  t.same(branchVerdict(rules, 'main', reported), { branch: 'main', verdict: 'success', reason: null })
  t.same(branchVerdict(rules, 'release/*', reported), {
    branch: 'release/*',
    verdict: 'pending',
    reason: 'e2e has not reported',
  })
})
