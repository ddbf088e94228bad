import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { startPostgres } from '../helpers/postgres-server.ts'
import { chartOf } from './chart.ts'
import { measureAll } from './everything.ts'
import { loadMaker } from './load-maker.ts'
import { tableOf } from './table.ts'

/**
 * Measures the server beside what a Fastify server does at best that does less. Scenarios take turns and are repeated;
 * only ratios within one run count, since machines are noisy. On two processors what makes the load takes one of them
 * and more, so requests a second tell of the server only where it was busy (1.00 of a processor): processor time for a
 * request is measured too. The exit code is 1 when an answer was not what it should be.
 *
 * --size N statuses stored (10,000; with more, the same on 10,000 is measured beside), --rounds N (3), --seconds N of
 * each measurement (1), --only PATTERN of names, --json instead of a table, --chart FILE
 */
const { values } = parseArgs({
  options: {
    size: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
    chart: { type: 'string' },
  },
})

// What was started is stopped, and what was written removed, before it ends.
const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopped.abort())
const postgres = await startPostgres()
try {
  const size = Number(values.size)
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
  const faults: string[] = []
  const rows = await measureAll({
    size,
    rounds,
    seconds,
    only: new RegExp(values.only),
    postgres: postgres.url,
    onFault: (text) => faults.push(text),
    signal: stopped.signal,
  })
  const machine = `${cpus().length} processors, Node.js ${process.version}, ${loadMaker}`
  const run = { size, rounds, seconds, machine, rows, faults }
  process.stdout.write(values.json ? `${JSON.stringify(run, null, 2)}\n` : `${machine}\n${tableOf(rows)}`)
  if (values.chart)
    writeFileSync(values.chart, chartOf(rows, `${size.toLocaleString('en')} statuses, ${machine}`))
  for (const fault of faults) process.stderr.write(`${fault}\n`)
  if (faults.length > 0) process.exitCode = 1
} finally {
  await postgres.stop()
}
