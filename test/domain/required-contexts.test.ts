import { test } from 'tap'
import { requiredContexts } from '../../src/domain/required-contexts.ts'
import { describeUnmetChecks } from '../../src/domain/unmet-checks.ts'

const rule = (branchPattern: string, ...required: string[]) => ({
  branchPattern,
  required,
  bypassUserIds: new Set<number>(),
})

test('required contexts name the branches whose rules require them', async (t) => {
  t.same(await requiredContexts([], ['ci/test']), { reported: new Map(), missing: new Map() })
  const rules = [rule('main', 'ci/*', 'ci/test', 'lint', 'e2e'), rule('release/*', 'ci/test', 'e2e')]
  const { reported, missing } = await requiredContexts(rules, ['ci/test', 'ci/mac', 'lint', 'docs'])
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
  t.equal(await describeUnmetChecks(reported, ['ci/test']), null)
  t.equal(await describeUnmetChecks(reported, ['ci/*']), 'ci/mac reported error')
  t.equal(
    await describeUnmetChecks(reported, ['lint', 'ci/*']),
    'lint has not reported, ci/mac reported error',
  )
  t.equal(await describeUnmetChecks([], ['a\n\u202e\u001b[1m']), 'a\ufffd\ufffd\ufffd[1m has not reported')
  t.equal(await describeUnmetChecks([], ['🚀'.repeat(255)]), `${'🚀'.repeat(99)}… has not reported`)
  const many = ['a', 'b', 'c', 'd', 'e']
  t.equal(
    await describeUnmetChecks([status('c', 'pending')], many),
    'a has not reported, b has not reported, d has not reported, and 2 more',
  )
})
