import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { findUnmetChecks } from '../../../src/git-http/push/gate.ts'
import { Turns } from '../../../src/schedule/turns.ts'
import { databases, openTestStore } from '../../helpers/databases.ts'
import { addReport, addRepository } from '../../helpers/records.ts'
import { recording } from '../../helpers/request-statements.ts'

const pusher = { address: 'user 1' }
const ruleOf = (...required: string[]) => ({ refPattern: 'refs/tags/*', required, bypass: [] })
const ci = [ruleOf('ci')]
const both = [ruleOf('ci'), ruleOf('lint\nfix', 'ci')]

for (const database of databases)
  t.test(`${database.name}: the reports of many commits are read together`, async (t) => {
    const opened = await openTestStore(t, database)
    const { id: repositoryId } = await addRepository(opened.store, 'owner/demo', { commits: 0 })
    const shas = Array.from({ length: 300 }, (_, index) => index.toString(16).padStart(40, '0'))
    const report = (sha: string, context: string, state: 'success' | 'failure' = 'success') =>
      addReport({ store: opened.store, repositoryId, sha }, context, state)
    for (const sha of shas.slice(2)) await report(sha, 'ci')
    await report(shas[1] ?? '', 'ci', 'failure')
    await report(shas[2] ?? '', 'lint\nfix')

    const { store, statements } = recording(opened.store.engine)
    const parts = { store, turns: new Turns(store.remote) }
    const commits = [...shas, ...shas.slice(0, 4)].map((sha, index) => ({
      sha,
      rules: index < shas.length ? ci : both,
    }))
    const find = async () => {
      statements.length = 0
      const unmet = await findUnmetChecks(parts, repositoryId, commits, pusher)
      return commits.map((commit) => unmet.get(commit)?.reason ?? null)
    }
    const expected = [
      ...['ci has not reported', 'ci reported failure', ...shas.slice(2).map(() => null)],
      ...[
        'ci has not reported, lint\ufffdfix has not reported',
        'ci reported failure, lint\ufffdfix has not reported',
      ],
      ...[null, 'lint\ufffdfix has not reported'],
    ]
    t.strictSame(await find(), expected)
    t.equal(statements.length, database.name === 'PostgreSQL' ? 10 : 300)
    await report(shas[0] ?? '', 'ci')
    t.strictSame(await find(), [
      null,
      ...expected.slice(1, 300),
      'lint\ufffdfix has not reported',
      ...expected.slice(301),
    ])
    t.equal((await findUnmetChecks(parts, repositoryId, [], pusher)).size, 0)
    await t.rejects(
      findUnmetChecks(parts, repositoryId, commits, { ...pusher, signal: AbortSignal.abort() }),
      {
        name: 'AbortError',
      },
    )
  })

t.test('many names and patterns are compared in turns', async (t) => {
  const reported = Array.from({ length: 1_000 }, (_, index) => ({
    context: 'a'.repeat(250) + index,
    state: 'success' as const,
  }))
  const turns = new Turns(false)
  const store = { reportedContexts: async () => [reported] }
  const required = Array.from({ length: 100 }, (_, index) => `${'a*'.repeat(100)}b${index}*`)
  const sha = 'a'.repeat(40)
  const rules = [ruleOf(...required)]
  let isRunning = true
  const stretches: number[] = []
  const measure = async () => {
    while (isRunning) {
      const before = process.threadCpuUsage()
      await setImmediate()
      const { user, system } = process.threadCpuUsage(before)
      stretches.push((user + system) / 1_000)
    }
  }
  const measured = measure()
  const pushes = Array.from({ length: 2 }, (_, index) =>
    findUnmetChecks({ store, turns }, 1, [{ sha, rules }], { address: `user ${index}` }),
  )
  for (const unmet of await Promise.all(pushes))
    t.match([...unmet.values()], [{ reason: / and 97 more$/, kind: 'checks' }])
  isRunning = false
  await measured
  const total = stretches.reduce((sum, each) => sum + each, 0)
  t.ok(Math.max(...stretches) < total / 10, `${Math.max(...stretches)} of ${total} ms`)
})
