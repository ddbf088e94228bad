import t from 'tap'
import { findUnmetChecks } from '../../../src/git-http/push/unmet-checks.ts'
import { databases, openTestStore } from '../../helpers/databases.ts'
import { addReport, addRepository } from '../../helpers/records.ts'
import { recording } from '../../helpers/request-statements.ts'

const { signal } = new AbortController()
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
    const commits = [...shas, ...shas.slice(0, 4)].map((sha, index) => ({
      sha,
      rules: index < shas.length ? ci : both,
    }))
    const find = async () => {
      statements.length = 0
      const reasonOf = await findUnmetChecks(store, repositoryId, commits, signal)
      return commits.map(reasonOf)
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
    t.strictSame((await findUnmetChecks(store, repositoryId, [], signal))({ sha: '', rules: ci }), null)
    await t.rejects(findUnmetChecks(store, repositoryId, commits, AbortSignal.abort()), {
      name: 'AbortError',
    })
  })
