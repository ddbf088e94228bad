import Sqlite from 'better-sqlite3'
import { type Fixture, SIZES } from './fixture.ts'
import { UNIQUE } from './load.ts'
import type { ServerProcess } from './processes.ts'
import { authorized, read, report, teamRequests, under } from './requests.ts'
import type { Scenario } from './scenario.ts'
import { databaseFile, type Served } from './servers.ts'
import { startStorm } from './storm.ts'

/** Commits that are reported on at once, and contexts of one. */
const AT_ONCE = 112
const STORM_RATE = 2_000
/** Milliseconds; less than it takes to read each of a thousand commits once. */
const STIR = 10
const TEAM = 2_000

/** @param etag of the public commit with 10 contexts */
export function readScenarios(
  { fixture, server }: Served,
  baseline: ServerProcess,
  etag: string,
): Scenario[] {
  const { sized, stored, silent, privateCommit, tokens } = fixture
  const unchanged = [read('public', sized.get(10), { 'if-none-match': etag })]
  const first = stored.map((sha) => read('public', sha))
  const beside = () => stir(fixture)
  const constant = (contexts: number) => `constant answer, ${contexts} contexts`
  const ok = { statuses: [200] }
  return [
    { name: 'hello', server: baseline, requests: under('/hello', unchanged), ...ok },
    {
      name: 'read, unchanged (304)',
      server,
      requests: unchanged,
      statuses: [304],
      against: { name: 'hello', aim: { atLeast: 0.9 } },
    },
    ...SIZES.flatMap((contexts): Scenario[] => {
      const requests = [read('public', sized.get(contexts))]
      const aim = contexts === 10 && { aim: { atLeast: 1.5 } }
      return [
        { name: constant(contexts), server: baseline, requests: under('/constant', requests), ...ok },
        {
          name: `read ${contexts}, anonymous, public`,
          server,
          requests,
          ...ok,
          against: { name: constant(contexts), ...aim },
        },
      ]
    }),
    {
      name: 'read 10, token, private',
      server,
      requests: [read('private', privateCommit, authorized(tokens[0]))],
      ...ok,
      against: { name: constant(10), aim: { atLeast: 1.4 } },
    },
    { name: 'one select', server: baseline, requests: under('/select', first), ...ok, beside },
    {
      name: 'read 10, first read of a commit',
      server,
      requests: first,
      ...ok,
      beside,
      against: { name: 'one select', aim: { atLeast: 0.8 } },
    },
    {
      name: 'read 0, git look-up, warm',
      server,
      requests: silent.map((sha) => read('silent', sha)),
      ...ok,
    },
  ]
}

export function reportScenarios({ fixture, server }: Served, baseline: ServerProcess): Scenario[] {
  const { reported, tokens } = fixture
  const commits = reported.slice(0, AT_ONCE)
  const created = { statuses: [201] }
  const changed = { description: `412 tests passed in ${UNIQUE} s` }
  const replacing = commits.map((sha) => report('reports', sha, tokens[0], changed))
  const fresh = reported.map((sha) => report('reports', sha, tokens[0], { context: `ci/${UNIQUE}` }))
  const [hot] = commits
  const against = { name: 'upsert, grouped', aim: { atLeast: 0.8 } }
  return [
    { name: 'upsert, one by one', server: baseline, requests: under('/single', replacing), ...created },
    { name: 'upsert, grouped', server: baseline, requests: under('/grouped', replacing), ...created },
    { name: 'report, replacing', server, requests: replacing, ...created, against },
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
      against: { name: 'report to 112 commits at once', aim: { atLeast: 0.9 } },
    },
  ]
}

/** What depends on how much is stored. @param size said in the names @param against the same on another size */
export function sizeScenarios({ fixture, server }: Served, size: number, other?: number): Scenario[] {
  const { reads, reports, mix } = teamRequests(fixture, TEAM)
  const named = (name: string, of: number) => `${name}, of ${of.toLocaleString('en')}`
  const compared = (name: string) => ({
    name: named(name, size),
    server,
    ...(other && { against: { name: named(name, other), aim: { atLeast: 0.9 } } }),
  })
  return [
    {
      ...compared('read, uncached'),
      requests: reads,
      statuses: [200],
      beside: () => stir(fixture),
    },
    { ...compared('report'), requests: reports, statuses: [201] },
    { ...compared('mix'), requests: mix, statuses: [200, 201, 401, 404, 413, 429] },
  ]
}

export function stormScenarios({ fixture, server }: Served): Scenario[] {
  const requests = teamRequests(fixture, TEAM).good
  const good = { server, requests, statuses: [200, 201] }
  const [{ path }] = [read('public', fixture.sized.get(10))]
  const beside = () => startStorm({ url: server.url, path, rate: STORM_RATE })
  return [
    { name: 'good requests', ...good },
    {
      name: 'good requests beside 2,000 bad tokens a second',
      ...good,
      beside,
      against: { name: 'good requests', aim: { atLeast: 0.7 } },
    },
  ]
}

export function postgresScenarios({ fixture, server }: Served, baseline: ServerProcess): Scenario[] {
  const { sized, reported, tokens } = fixture
  const reads = [read('public', sized.get(10))]
  const changed = { description: `412 tests passed in ${UNIQUE} s` }
  const reports = reported.slice(0, AT_ONCE).map((sha) => report('reports', sha, tokens[0], changed))
  const aim = { atLeast: 0.7 }
  return [
    { name: 'PostgreSQL: the calls of a read', server: baseline, requests: reads, statuses: [200] },
    {
      name: 'PostgreSQL: read 10',
      server,
      requests: reads,
      statuses: [200],
      against: { name: 'PostgreSQL: the calls of a read', aim },
    },
    { name: 'PostgreSQL: the calls of a report', server: baseline, requests: reports, statuses: [201] },
    {
      name: 'PostgreSQL: report, replacing',
      server,
      requests: reports,
      statuses: [201],
      against: { name: 'PostgreSQL: the calls of a report', aim },
    },
  ]
}

/**
 * Commits something of no interest again and again, as another process would: what a server remembers of the database
 * it then has to read anew. So a thousand commits in turn are each read as if for the first time.
 */
async function stir(fixture: Fixture): Promise<() => Promise<undefined>> {
  const db = new Sqlite(databaseFile(fixture), { timeout: 1_000 })
  db.pragma('synchronous = off')
  const change = db.prepare(`update users set created_at = created_at where name_key = 'alice'`)
  const timer = setInterval(() => change.run(), STIR)
  return async () => {
    clearInterval(timer)
    db.close()
  }
}
