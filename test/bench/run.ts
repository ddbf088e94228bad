import { rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { makeFixture } from './fixture.ts'
import { putLoad } from './load.ts'
import { type ServerProcess, startProcess } from './processes.ts'
import { type Scenario, scenarios } from './scenarios.ts'

/**
 * Measures the server beside what a Fastify server does at best that does less. Scenarios take turns and are repeated;
 * only ratios within one run count, since machines are noisy. On two processors the process that makes the load is
 * often the slower one, so processor time for a request tells more than requests a second: both are printed.
 *
 * --rounds N (3), --seconds N of each measurement (2), --json
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
  },
})
const CONNECTIONS = 32
const root = resolve(import.meta.dirname, '../..')

interface Sample {
  rate: number
  cpu: number
  p99: number
}

const fixture = await makeFixture()
const servers: Record<Scenario['server'], ServerProcess> = {
  ours: await startProcess([join(root, 'src/server.ts')], {
    DATA_DIR: fixture.dataDir,
    DATABASE_URL: '',
    PORT: '0',
    LOG_LEVEL: 'warn',
  }),
  baseline: await startProcess([
    join(root, 'test/bench/baseline-server.ts'),
    join(fixture.dataDir, 'commit-status.db'),
    JSON.stringify({ public: fixture.answer }),
  ]),
}

try {
  const url = `${servers.ours.url}/api/v1/repos/alice/public/commits/${fixture.commits.get(10)}/statuses`
  const etag = (await fetch(url)).headers.get('etag') ?? ''
  const all = scenarios(fixture, etag)
  const samples = new Map(all.map(({ name }): [string, Sample[]] => [name, []]))
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const scenario of all) samples.get(scenario.name)?.push(await measure(scenario))
  }
  print(all, samples)
} finally {
  await Promise.all(Object.values(servers).map((server) => server.stop()))
  rmSync(fixture.dataDir, { recursive: true, force: true })
}

async function measure(scenario: Scenario): Promise<Sample> {
  const server = servers[scenario.server]
  const duration = Number(values.seconds)
  const before = server.cpu()
  const load = { url: server.url, connections: CONNECTIONS, duration, requests: scenario.requests }
  const { rate, p99, statuses, errors } = await putLoad(load)
  const seen = Object.keys(statuses)
  if (errors > 0 || seen.length !== 1 || seen[0] !== String(scenario.status)) {
    throw new Error(`${scenario.name}: ${errors} errors, answers ${JSON.stringify(statuses)}`)
  }
  return { rate, p99, cpu: (server.cpu() - before) / (rate * duration) }
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN
}

function print(all: Scenario[], samples: Map<string, Sample[]>): void {
  const rows = all.map(({ name, against }) => {
    const mine = samples.get(name) ?? []
    const theirs = samples.get(against?.name ?? '') ?? []
    const ratio = (of: (sample: Sample) => number) =>
      theirs.length > 0 ? median(mine.map(of)) / median(theirs.map(of)) : null
    const rates = mine.map(({ rate }) => rate)
    return {
      name,
      rate: median(rates),
      spread: (Math.max(...rates) - Math.min(...rates)) / median(rates),
      p99: median(mine.map((sample) => sample.p99)),
      cpu: median(mine.map((sample) => sample.cpu)),
      against: against?.name ?? null,
      atLeast: against?.atLeast ?? null,
      ratio: ratio(({ rate }) => rate),
      cpuRatio: ratio(({ cpu }) => 1 / cpu),
    }
  })
  if (values.json) {
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`)
    return
  }
  const line = (cells: string[]) =>
    `${cells.map((cell, index) => (index === 0 ? cell.padEnd(28) : cell.padStart(11))).join('')}\n`
  process.stdout.write(
    line(['scenario', 'requests/s', 'spread', 'p99 ms', 'CPU µs', 'ratio', 'by CPU', 'aim']),
  )
  for (const row of rows) {
    const ratio = (value: number | null) => value?.toFixed(2) ?? ''
    const spread = `${(row.spread * 100).toFixed(0)} %`
    const cells = [row.name, row.rate.toFixed(0), spread, row.p99.toFixed(1), row.cpu.toFixed(1)]
    process.stdout.write(line([...cells, ratio(row.ratio), ratio(row.cpuRatio), ratio(row.atLeast)]))
  }
}
