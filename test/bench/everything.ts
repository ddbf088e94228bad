import { compareAnswers } from './compare-answers.ts'
import { measureLookups } from './lookups.ts'
import { measure } from './measure.ts'
import { measureMemory } from './memory.ts'
import { measurePages } from './pages.ts'
import { postgresScenarios } from './postgres-scenarios.ts'
import type { ServerProcess } from './processes.ts'
import { rawAnswers, readScenarios } from './read-scenarios.ts'
import { reportScenarios } from './report-scenarios.ts'
import { read } from './requests.ts'
import type { Row } from './row.ts'
import { comparisonsOf, type Scenario } from './scenario.ts'
import {
  minimalArgs,
  ourCommand,
  type Served,
  serve,
  startHttpBaseline,
  startPostgresBaseline,
  startSqliteBaseline,
} from './servers.ts'
import { measureStarts, type Start } from './start-time.ts'
import { sizeScenarios, tokenFloodScenarios } from './team-scenarios.ts'

const SMALL = 10_000
const MIB = 1024 ** 2

export interface Bench {
  /** Statuses stored. */
  size: number
  rounds: number
  /** Duration of each measurement, a whole number. */
  seconds: number
  /** Measures the scenarios whose names match, and their baselines. */
  only: RegExp
  /** URL of a PostgreSQL server. */
  postgres: string
  /** Called with an error message for every unexpected answer. */
  onError(text: string): void
  /** Stops the benchmark between two measurements. */
  signal: AbortSignal
}

/** Our server on both databases, with the same number of statuses. */
interface Pair {
  size: number
  sqlite: Served
  postgres: Served
}

/** Creates the servers and databases, measures, and removes them. */
export async function measureAll(bench: Bench): Promise<Row[]> {
  const { size, only } = bench
  const opened: (() => Promise<void>)[] = []
  const pair = async (count: number): Promise<Pair> => {
    const sqlite = await serve(count)
    opened.push(sqlite.remove)
    const postgres = await serve(count, bench.postgres)
    opened.push(postgres.remove)
    return { size: count, sqlite, postgres }
  }
  const started = async (server: Promise<ServerProcess>) => {
    const { stop } = await server
    opened.push(stop)
    return server
  }
  try {
    const main = await pair(size)
    const small = size > SMALL ? await pair(SMALL) : undefined
    const baseline = await started(startSqliteBaseline(main.sqlite.fixture))
    const postgresBaseline = await started(startPostgresBaseline(main.postgres.fixture))
    const etag = await etagOf(main.sqlite)
    const raw = await started(startHttpBaseline(await rawAnswers(main.sqlite, etag)))
    const scenarios = [
      ...readScenarios(main.sqlite, { baseline, raw }, etag),
      ...reportScenarios(main.sqlite, baseline),
      ...(small ? sizeScenarios(small.sqlite, SMALL) : []),
      ...sizeScenarios(main.sqlite, size, small && SMALL),
      ...tokenFloodScenarios(main.sqlite),
      ...postgresScenarios(main.postgres, postgresBaseline),
    ]
    const selected = select(scenarios, only)
    await compareAnswers(selected, bench.onError)
    const rows = await measure(selected, bench)
    if (only.test('git lookup')) rows.push(...(await measureLookups(main.sqlite)))
    if (only.test('pages')) {
      rows.push(...(await measurePages(main.sqlite, 'SQLite', bench.onError)))
      rows.push(...(await measurePages(main.postgres, 'PostgreSQL', bench.onError)))
    }
    if (only.test('start')) rows.push(...(await measureStarts(startsOf(main, small), bench.rounds)))
    if (only.test('memory')) rows.push(...memoryOf(main), ...(await measureMemory(main.sqlite, bench.signal)))
    if (only.test('bytes')) rows.push(...bytesOf(main))
    return rows
  } finally {
    await Promise.allSettled(opened.map((close) => close()))
  }
}

async function etagOf({ fixture, server }: Served): Promise<string> {
  const answer = await fetch(server.url + read('public', fixture.sized.get(10)).path)
  return answer.headers.get('etag') ?? ''
}

/** Returns the scenarios whose names match, and their baselines. */
function select(scenarios: Scenario[], only: RegExp): Scenario[] {
  const named = scenarios.filter(({ name }) => only.test(name))
  const names = new Set(
    named.flatMap((scenario) => [scenario.name, ...comparisonsOf(scenario).map(({ name }) => name)]),
  )
  return scenarios.filter(({ name }) => names.has(name))
}

function startsOf(main: Pair, small: Pair | undefined): Start[] {
  const bare = 'start, Fastify and better-sqlite3 alone'
  const start = (name: string, served: Served, against: Start['against'] = []): Start => {
    const { path } = read('public', served.fixture.sized.get(10))
    return { name, ...ourCommand(served.fixture), path, against }
  }
  const named = (name: string, size: number) => `start, ${name}, ${size.toLocaleString('en')}`
  const both = ({ size, sqlite, postgres }: Pair, than?: Pair) => {
    const against = (name: string) =>
      than ? [{ name: named(name, than.size), target: { atMost: 1.1 } }] : []
    return [
      start(named('SQLite', size), sqlite, [{ name: bare, target: { atMost: 5 } }, ...against('SQLite')]),
      start(named('PostgreSQL', size), postgres, against('PostgreSQL')),
    ]
  }
  const minimal = { name: bare, args: minimalArgs(main.sqlite.fixture), path: '/' }
  return [minimal, ...(small ? both(small) : []), ...both(main, small)]
}

/** Returns the memory of the servers after all scenarios. */
function memoryOf({ sqlite, postgres }: Pair): Row[] {
  const row = (name: string, { server }: Served): Row => ({
    name: `memory after all scenarios, ${name}`,
    value: server.memory() / MIB,
    unit: 'MiB',
  })
  return [row('SQLite', sqlite), row('PostgreSQL', postgres)]
}

function bytesOf({ sqlite, postgres }: Pair): Row[] {
  const row = (name: string, { fixture }: Served): Row => ({
    name: `${name}, bytes per status`,
    value: fixture.bytesPerStatus,
    unit: 'bytes',
  })
  return [row('SQLite', sqlite), row('PostgreSQL', postgres)]
}
