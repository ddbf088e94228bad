import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { startPostgres } from '../helpers/postgres-server.ts'
import { chartOf } from './chart.ts'
import { measureAll } from './everything.ts'
import { loadGenerator } from './load-generator.ts'
import { benchOptions } from './options.ts'
import { tableOf } from './table.ts'

/**
 * Compares the server with baseline servers that do less work, in the same run. Scenarios take turns over several rounds;
 * only ratios within one run are meaningful, since machines are noisy. On two processors the load generator takes one or
 * more, so requests per second reflect the server only where it was busy (1.00 of a processor); processor time per
 * request is measured too. The exit code is 1 after an unexpected answer.
 *
 * --size N statuses stored (10,000; with more, also measures 10,000), --rounds N (3), --seconds N of each measurement (1),
 * --only PATTERN of names, --json instead of a table, --chart FILE
 */
const { values } = parseArgs({ options: benchOptions })

// A signal ends the run after the cleanup.
const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopped.abort())
const postgres = await startPostgres()
try {
  const size = Number(values.size)
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
  const errors: string[] = []
  const rows = await measureAll({
    size,
    rounds,
    seconds,
    only: new RegExp(values.only),
    postgres: postgres.url,
    onError: (text) => errors.push(text),
    signal: stopped.signal,
  })
  const machine = `${cpus().length} processors, Node.js ${process.version}, ${loadGenerator}`
  const run = { size, rounds, seconds, machine, rows, errors }
  process.stdout.write(values.json ? `${JSON.stringify(run, null, 2)}\n` : `${machine}\n${tableOf(rows)}`)
  if (values.chart)
    writeFileSync(values.chart, chartOf(rows, `${size.toLocaleString('en')} statuses, ${machine}`))
  for (const error of errors) process.stderr.write(`${error}\n`)
  if (errors.length > 0) process.exitCode = 1
} finally {
  await postgres.stop()
}
