import { UNIQUE } from './load.ts'
import type { ServerProcess } from './processes.ts'
import { read, report } from './requests.ts'
import type { Scenario } from './scenario.ts'
import type { Served } from './servers.ts'

const COMMITS = 112

export function postgresScenarios({ fixture, server }: Served, baseline: ServerProcess): Scenario[] {
  const { sized, reported, tokens } = fixture
  const reads = [read('public', sized.get(10))]
  const changed = { description: `412 tests passed in ${UNIQUE} s` }
  const replaced = reported.slice(0, COMMITS)
  const reports = replaced.map((sha) => report('reports', sha, tokens[0], changed))
  const target = { atLeast: 1.5 }
  return [
    { name: 'PostgreSQL: the calls of a read', server: baseline, requests: reads, statuses: [200] },
    {
      name: 'PostgreSQL: read 10',
      server,
      requests: reads,
      statuses: [200],
      against: { name: 'PostgreSQL: the calls of a read', target, byCpu: true },
    },
    // Runs before its baseline, which replaces the rows that this scenario creates.
    {
      name: 'PostgreSQL: report, replacing',
      server,
      requests: reports,
      statuses: [201],
      against: { name: 'PostgreSQL: the calls of a report', target, byCpu: true },
    },
    {
      name: 'PostgreSQL: report of another run, replacing',
      server,
      requests: replaced.map((sha) => report('reports', sha, tokens[0], { run: `pipeline-${UNIQUE}` })),
      statuses: [201],
      against: { name: 'PostgreSQL: report, replacing', target: { atLeast: 0.97 }, byCpu: true },
    },
    { name: 'PostgreSQL: the calls of a report', server: baseline, requests: reports, statuses: [201] },
    {
      name: 'PostgreSQL: report, new context',
      server,
      requests: reported.map((sha) => report('reports', sha, tokens[0], { context: `ci/${UNIQUE}` })),
      statuses: [201],
      against: { name: 'PostgreSQL: the calls of a report' },
    },
  ]
}
