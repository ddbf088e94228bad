import assert from 'node:assert/strict'
import fc from 'fast-check'
import { commitsOf, pathParams } from './fixture.ts'
import { type Json, list, object, text } from './json.ts'
import { type Check, combined, expectStatus, holds, operationCalled, type Run, reportAndList } from './run.ts'

/** No other check reports them. */
const CONTEXTS = ['branches/build', 'branches/lint'] as const
const STATES = ['pending', 'success', 'success', 'success', 'failure', 'error'] as const
/** The last one matches none. */
const PATTERNS = ['branches/build', 'branches/*', '*/lint', 'branches/deploy*'] as const
/** Commits that are reported on. */
const REPORTED = 4

/** Compares what is said about branches with the statuses and verdicts of their commits. */
export const branches: Check = {
  name: 'what is said about branches follows from the statuses of their commits',
  async run(run) {
    const { report, list: read } = reportAndList(run)
    const lastPassed = operationCalled(run, 'getLastPassed')
    const verdict = operationCalled(run, 'getVerdict')
    const { open, writer, admin } = run.fixture
    const token = writer.secret
    const reported = commitsOf(open).slice(-REPORTED)
    const values = fc.record({
      reports: fc.array(
        fc.tuple(fc.constantFrom(...reported), fc.constantFrom(...CONTEXTS), fc.constantFrom(...STATES)),
        { maxLength: 6 },
      ),
      // The last passed commit is asked for by at least one exact name.
      require: fc.subarray(PATTERNS.slice(1)).map((patterns) => [PATTERNS[0], ...patterns]),
    })
    await holds(run, values, async ({ reports, require }) => {
      for (const [sha, context, state] of reports)
        await run.client.call(report, { params: pathParams(open, sha), token, body: { context, state } })
      const passed: string[] = []
      for (const sha of [...reported].reverse()) {
        const answer = await run.client.call(verdict, {
          params: pathParams(open, sha),
          token,
          query: { require },
        })
        const said = object(answer.json, verdict.id).verdict
        const listed = await run.client.call(read, { params: pathParams(open, sha), token })
        const statuses = list(object(listed.json, read.id).statuses).map((status) => object(status, 'status'))
        assert.equal(said, expectedVerdict(statuses, require))
        if (said === 'success') passed.push(sha)
      }

      const params = pathParams(open, '')
      const answer = await run.client.call(lastPassed, { params, token, query: { branch: 'main', require } })
      expectStatus(answer, 200, require.join())
      const { commit, looked_at } = object(answer.json, lastPassed.id)
      // The order of commits is known only of a repository that this run has created.
      if (admin) {
        const found = commit === null ? undefined : text(object(commit, 'commit').sha, 'sha')
        const isReported = found !== undefined && reported.includes(found)
        // Other checks report on earlier commits, which may pass too.
        assert.equal(isReported ? found : undefined, passed[0])
        const index = found === undefined ? 0 : open.commits.indexOf(found)
        assert.equal(looked_at, open.commits.length - index)
      }
      if (commit !== null) await compare(run, object(commit, 'commit'), read.id)
    })
    await walk(run)
  },
}

/** Returns the verdict that follows from the statuses of a commit. */
function expectedVerdict(statuses: readonly Record<string, Json>[], patterns: readonly string[]): string {
  const states = patterns.flatMap((pattern) => {
    const expression = new RegExp(`^${pattern.replaceAll('*', '.*')}$`)
    const matching = statuses.filter(({ context }) => expression.test(String(context)))
    return matching.length === 0 ? ['pending'] : matching.map(({ state }) => String(state))
  })
  return String(combined(states))
}

/** Compares the state and counts of a commit with its statuses. */
async function compare(run: Run, commit: Record<string, Json>, id: string): Promise<void> {
  const { open, writer } = run.fixture
  const params = pathParams(open, text(commit.sha, 'sha'))
  const answer = await run.client.call(operationCalled(run, id), { params, token: writer.secret })
  const states = list(object(answer.json, id).statuses).map((status) => object(status, 'status').state)
  const counts = Object.fromEntries(
    ['pending', 'success', 'failure', 'error'].map((state) => [
      state,
      states.filter((other) => other === state).length,
    ]),
  )
  assert.deepEqual([commit.state, commit.counts], [combined(states.map(String)), counts])
}

/** Walks through all branches, one on a page. */
async function walk(run: Run): Promise<void> {
  const { open, writer } = run.fixture
  const operation = operationCalled(run, 'listBranches')
  const page = async (query: Record<string, string>) => {
    const settings = { params: pathParams(open, ''), token: writer.secret, query }
    return object((await run.client.call(operation, settings)).json, operation.id)
  }
  const all = list((await page({})).branches).map((branch) => object(branch, 'branch'))
  assert(all.length > 0)
  for (const [index, branch] of all.entries()) {
    const previous = all[index - 1]
    const after = previous ? { after: text(previous.name, 'name') } : undefined
    const { branches } = await page({ limit: '1', ...after })
    assert.deepEqual(branches, [branch])
    await compare(run, branch, 'listStatuses')
  }
  const last = text(all.at(-1)?.name, 'name')
  assert(!JSON.stringify((await page({ after: last })).branches).includes(`"name":${JSON.stringify(last)}`))
}
