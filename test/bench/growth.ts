import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Compared, compared, compareSides } from './against.ts'
import { createFixture, type Fixture } from './fixture.ts'
import { invalidateCaches } from './invalidate-caches.ts'
import { type LoadRequest, UNIQUE } from './load.ts'
import type { Measurement } from './measure.ts'
import { cpuOf, databaseClock, startProcess } from './processes.ts'
import { page, read, report } from './requests.ts'
import { createDatabase, ourCommand, startArgs } from './servers.ts'
import type { ServerSide, SideRequest } from './side.ts'

/** Statuses that the other number is compared with. */
export const FEW = 10_000

/** Our server on a fixture. */
interface Filled extends ServerSide {
  fixture: Fixture
  statuses: number
  /** Returns the processor time of the database server so far, in microseconds. */
  databaseCpu(): number
}

export interface Growth extends Measurement {
  /** Statuses stored. */
  statuses: number
  /** URL of a PostgreSQL server; null for SQLite. */
  postgres: string | null
  /** Measures what matches. */
  only: RegExp
}

/**
 * Compares the processor time of requests with many statuses stored and with few, in turn, and that
 * of the administrator's commands for each status. On PostgreSQL it includes that of the database.
 */
export async function compareGrowth({
  statuses,
  postgres,
  only,
  ...measurement
}: Growth): Promise<Compared[]> {
  const opened: (() => unknown)[] = []
  const databaseCpu = postgres === null ? () => 0 : await databaseClock(postgres)
  const open = async (count: number): Promise<Filled> => {
    const fixture = await createFixture(count, postgres === null ? undefined : await createDatabase(postgres))
    opened.push(() => rmSync(fixture.options.dataDir, { recursive: true, force: true }))
    const { args, env } = ourCommand(fixture)
    const start = async () => {
      const server = await startProcess(args, env)
      return { ...server, cpu: () => server.cpu() + databaseCpu() }
    }
    const side: Filled = {
      name: `${count.toLocaleString('en')} statuses`,
      fixture,
      statuses: count,
      databaseCpu,
      server: await start(),
      async restart() {
        await side.server.stop()
        side.server = await start()
      },
    }
    opened.push(() => side.server.stop())
    return side
  }
  try {
    const [many, few] = [await open(statuses), await open(FEW)]
    const rows = await compareSides(
      [many, few],
      requests.filter(({ name }) => only.test(name)),
      measurement,
    )
    for (const command of ['backup', 'check'] as const) {
      const name = `${command}, each status`
      if (only.test(name))
        rows.push(compared(name, [await cpuPerStatus(command, many)], [await cpuPerStatus(command, few)]))
    }
    return rows
  } finally {
    for (const close of opened.reverse()) await close()
  }
}

const requests: SideRequest<Filled>[] = [
  {
    name: 'read',
    requestsOf: ({ fixture: { sized } }) => [read('public', sized.get(10))],
    status: 200,
  },
  {
    name: 'read, first of a recent commit',
    requestsOf: ({ fixture: { stored } }) => stored.map((sha) => read('public', sha)),
    status: 200,
    meanwhile,
  },
  {
    name: 'read, first of an old commit',
    requestsOf: ({ fixture: { older } }) => older.map((sha) => read('public', sha)),
    status: 200,
    meanwhile,
  },
  {
    name: 'report, replacing',
    requestsOf: ({ fixture: { stored, tokens } }) =>
      stored.map((sha) =>
        report('public', sha, tokens[0], { description: `412 tests passed in ${UNIQUE} s` }),
      ),
    status: 201,
  },
  {
    name: 'report, new context',
    requestsOf: ({ fixture: { reported, tokens } }) =>
      reported.map((sha) => report('reports', sha, tokens[0], { context: `ci/${UNIQUE}` })),
    status: 201,
  },
  {
    name: 'branches',
    requestsOf: () => [get('/api/v1/repos/alice/public/branches')],
    status: 200,
    meanwhile,
  },
  {
    name: 'last-passed',
    requestsOf: () => [get('/api/v1/repos/alice/public/last-passed?branch=main&require=ci/check-0')],
    status: 200,
    meanwhile,
  },
  { name: 'page: home', requestsOf: () => [page('/')], status: 200, meanwhile },
]

function get(path: string): LoadRequest {
  return { method: 'GET', path, headers: {} }
}

/** Nothing is cached of PostgreSQL. */
async function meanwhile({ fixture }: Filled) {
  return fixture.options.databaseUrl ? async () => undefined : invalidateCaches(fixture)
}

/** Returns microseconds of processor time, with that of git. */
async function cpuPerStatus(command: 'backup' | 'check', side: Filled): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-backup-'))
  const cpu = () => cpuOf(process.pid).children + side.databaseCpu()
  try {
    const before = cpu()
    const child = spawn(
      process.execPath,
      [...startArgs(undefined, 'cli'), command, ...(command === 'backup' ? [folder] : [])],
      { env: { ...process.env, ...ourCommand(side.fixture).env }, stdio: ['ignore', 'ignore', 'inherit'] },
    )
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`${command} of ${side.name}: exit code ${code}`)
    return (cpu() - before) / side.statuses
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
