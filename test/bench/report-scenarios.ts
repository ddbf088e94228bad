import { UNIQUE } from './load.ts'
import type { ServerProcess } from './processes.ts'
import { authorized, report, under } from './requests.ts'
import type { Scenario } from './scenario.ts'
import type { Served } from './servers.ts'

/** Concurrent reports: to so many commits, or so many contexts of one. */
const AT_ONCE = 112

export function reportScenarios({ fixture, server }: Served, baseline: ServerProcess): Scenario[] {
  const { reported, tokens } = fixture
  const commits = reported.slice(0, AT_ONCE)
  const created = { statuses: [201] }
  const changed = { description: `412 tests passed in ${UNIQUE} s` }
  const replacing = commits.map((sha) => report('reports', sha, tokens[0], changed))
  const fresh = reported.map((sha) => report('reports', sha, tokens[0], { context: `ci/${UNIQUE}` }))
  const [hot] = commits
  const against = { name: 'upsert, grouped', target: { atLeast: 0.8 } }
  return [
    { name: 'upsert, one by one', server: baseline, requests: under('/single', replacing), ...created },
    { name: 'upsert, grouped', server: baseline, requests: under('/grouped', replacing), ...created },
    {
      name: 'report, replacing',
      server,
      requests: replacing,
      ...created,
      against: [against, { name: against.name, target: { atLeast: 0.75 }, byCpu: true }],
    },
    {
      name: 'report of another run, replacing',
      server,
      requests: commits.map((sha) => report('reports', sha, tokens[0], { run: `pipeline-${UNIQUE}` })),
      ...created,
      against: { name: 'report, replacing', target: { atLeast: 0.97 }, byCpu: true },
    },
    {
      name: 'report, the same again',
      server,
      requests: commits.map((sha) => report('reports', sha, tokens[0])),
      ...created,
      against,
    },
    {
      name: 'report, one token for 90 %',
      server,
      requests: replacing.map((request, index) => ({
        ...request,
        headers: { ...request.headers, ...(index % 10 === 9 && authorized(tokens[1 + (index % 10)])) },
      })),
      ...created,
      against,
    },
    {
      name: 'upsert of a new row, grouped',
      server: baseline,
      requests: under('/grouped', fresh),
      ...created,
    },
    {
      name: 'report, new context',
      server,
      requests: fresh,
      ...created,
      against: { ...against, name: 'upsert of a new row, grouped' },
    },
    {
      name: 'report to 112 commits at once',
      server,
      connections: AT_ONCE,
      requests: replacing,
      ...created,
    },
    {
      name: 'report to one commit, 112 contexts at once',
      server,
      connections: AT_ONCE,
      requests: commits.map((_, index) =>
        report('reports', hot, tokens[0], { ...changed, context: `ci/check-${index}` }),
      ),
      ...created,
      against: { name: 'report to 112 commits at once', target: { atLeast: 0.9 } },
    },
  ]
}
