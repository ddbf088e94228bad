import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { startPostgres } from '../helpers/postgres-server.ts'
import { compareSides, comparisonTable } from './against.ts'
import { chartOf } from './chart.ts'
import { measureAll } from './everything.ts'
import { compareGrowth, FEW } from './growth.ts'
import { loadGenerator } from './load-generator.ts'
import { BENCH_HELP, readBenchOptions } from './options.ts'
import { countPaths, pathTable } from './paths.ts'
import { gatedPush, sideRequests, withSides } from './side.ts'
import { measureSizing } from './sizing.ts'
import { tableOf } from './table.ts'
import { compareTransfers } from './transfers.ts'

/**
 * What `BENCH_HELP` says. On two processors the load generator takes one or more, so requests per
 * second reflect the server only where it was busy (1.00 of a processor); processor time per request
 * is measured too.
 */
const values = readBenchOptions()
const { against } = values
const machine = `${cpus().length} processors, Node.js ${process.version}, ${loadGenerator}`
const only = new RegExp(values.only)
const seconds = Number(values.seconds)
const roundsOr = (otherwise: number) => Number(values.rounds ?? otherwise)
const errors: string[] = []
const onError = (text: string) => errors.push(text)
// A signal ends the run after the cleanup.
const stopped = new AbortController()
const { signal } = stopped
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stopped.abort())

if (values.help) process.stdout.write(BENCH_HELP)
else if (values.sizing) await withPostgres(measureSize)
else if (values.rows !== undefined || values.paths || against !== undefined)
  await (values.postgres ? withPostgres(measureInTurn) : measureInTurn(null))
else await withPostgres(measureBaselines)
for (const error of errors) process.stderr.write(`${error}\n`)
if (errors.length > 0) process.exitCode = 1

async function withPostgres(measure: (url: string) => Promise<void>): Promise<void> {
  const postgres = await startPostgres()
  try {
    await measure(postgres.url)
  } finally {
    await postgres.stop()
  }
}

/** @param postgres URL of a PostgreSQL server; null for SQLite */
async function measureInTurn(postgres: string | null): Promise<void> {
  const measurement = { seconds, rounds: roundsOr(11), onError, signal }
  if (values.rows !== undefined) {
    const rows = await compareGrowth({ statuses: Number(values.rows), postgres, only, ...measurement })
    return print(rows, comparisonTable(rows, 'CPU µs', FEW.toLocaleString('en')))
  }
  const counted = values.paths ? [...sideRequests, gatedPush] : sideRequests
  const requests = counted.filter(({ name }) => only.test(name))
  const commits = against === undefined ? [] : [against]
  await withSides(commits, { inspected: values.paths, postgres }, async (sides) => {
    if (values.paths) {
      const paths = []
      for (const side of sides) paths.push(...(await countPaths(side, requests)))
      return print(paths, pathTable(paths))
    }
    const rows = await compareSides(sides, requests, measurement)
    const transfers = await compareTransfers(sides, measurement.rounds, only)
    const commit = against ?? ''
    print(
      [...rows, ...transfers],
      `${comparisonTable(rows, 'CPU µs', commit)}${comparisonTable(transfers, 'ms', commit)}`,
    )
  })
}

async function measureBaselines(postgres: string): Promise<void> {
  const [size, rounds] = [Number(values.size), roundsOr(3)]
  const rows = await measureAll({ size, rounds, seconds, only, postgres, onError, signal })
  print({ size, rounds, seconds, machine, rows, errors }, tableOf(rows))
  if (values.chart)
    writeFileSync(values.chart, chartOf(rows, `${size.toLocaleString('en')} statuses, ${machine}`))
}

async function measureSize(postgres: string): Promise<void> {
  const sizing = await measureSizing({ size: Number(values.size), seconds, postgres, onError })
  process.stdout.write(`${machine}\n\n${sizing}`)
}

function print(result: object, table: string): void {
  process.stdout.write(values.json ? `${JSON.stringify(result, null, 2)}\n` : `${machine}\n${table}`)
}
