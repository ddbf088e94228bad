import assert from 'node:assert/strict'
import fc from 'fast-check'
import { commitsOf, pathParams } from './fixture.ts'
import { type Json, list, object, text } from './json.ts'
import { type Check, combined, expectStatus, holds, operationCalled, reportAndList } from './run.ts'

const CONTEXTS = ['build', 'lint', 'ci/build', 'ci/lint'] as const
const STATES = ['pending', 'success', 'failure', 'error'] as const
const PATTERNS = ['build', 'ci/*', '*', '*lint', 'ci/*d', 'not reported'] as const

/** Compares verdicts with their definition, applied to the statuses that the instance lists. */
export const verdicts: Check = {
  name: 'a verdict follows from the statuses, whatever is required',
  async run(run) {
    const { report, list: read } = reportAndList(run)
    const verdict = operationCalled(run, 'getVerdict')
    const { open, writer } = run.fixture
    const token = writer.secret
    const values = fc.record({
      sha: fc.constantFrom(...commitsOf(open).slice(0, 8)),
      reports: fc.array(fc.tuple(fc.constantFrom(...CONTEXTS), fc.constantFrom(...STATES)), { maxLength: 4 }),
      patterns: fc.subarray([...PATTERNS]),
    })
    await holds(run, values, async ({ sha, reports, patterns }) => {
      const params = pathParams(open, sha)
      for (const [context, state] of reports)
        await run.client.call(report, { params, token, body: { context, state } })
      const listed = object((await run.client.call(read, { params, token })).json, read.id)
      const query = { require: [...patterns, ...patterns] }
      const answer = await run.client.call(verdict, { params, token, query })
      expectStatus(answer, 200, JSON.stringify(patterns))
      assert.deepEqual(answer.json, expected(listed.statuses ?? [], patterns))
    })
  },
}

/** Returns the verdict by its definition (openapi.yaml, `getVerdict`). */
function expected(statuses: Json, patterns: readonly string[]) {
  const reported = list(statuses).map((status) => {
    const { context, state } = object(status, 'a status')
    return { context: text(context, 'context'), state: text(state, 'state') }
  })
  const required = patterns.map((pattern) => {
    const whole = new RegExp(`^${pattern.replaceAll('*', '.*')}$`, 's')
    const matching = reported.filter(({ context }) => whole.test(context))
    return {
      pattern,
      state: combined(matching.map(({ state }) => state)),
      contexts: matching.map(({ context }) => context),
    }
  })
  const state = combined(reported.map((status) => status.state))
  const counted = patterns.length === 0 ? [state] : required.map((pattern) => pattern.state)
  const verdict = combined(counted.map((known) => known ?? 'pending'))
  return { verdict, state, required }
}
