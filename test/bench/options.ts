import { parseArgs } from 'node:util'

/** Options of `npm run bench`, for parseArgs. */
export const benchOptions = {
  size: { type: 'string', default: '10000' },
  rounds: { type: 'string' },
  seconds: { type: 'string', default: '1' },
  only: { type: 'string', default: '' },
  json: { type: 'boolean', default: false },
  chart: { type: 'string' },
  against: { type: 'string' },
  rows: { type: 'string' },
  paths: { type: 'boolean', default: false },
  sizing: { type: 'boolean', default: false },
  postgres: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

export const BENCH_HELP = `Compares the server with baseline servers that do less work, in the same run.

  npm run bench                       throughput of the server relative to baseline servers
  npm run bench -- --against COMMIT   processor time of requests, and duration of fetches and pushes, here and there
  npm run bench -- --rows N           processor time of requests, backup and check with N statuses and with 10,000
  npm run bench -- --paths            functions that one request of each kind calls; with --against, also there
  npm run bench -- --sizing           what the operator's guide says about sizing

  --size N         statuses stored (default: 10000; with more, also measures 10000)
  --rounds N       rounds in which scenarios take turns (default: 3; 11 with --against or --rows)
  --seconds N      duration of each measurement (default: 1)
  --only PATTERN   regular expression that the names of scenarios match
  --postgres       with --against or --rows: on PostgreSQL, whose processor time is added (default: SQLite)
  --json           print JSON instead of a table
  --chart FILE     draw the ratios as SVG

Only ratios within one run are meaningful. The exit code is 1 after an unexpected answer.
`

/** Returns the options that are given. Ends the process where one is unknown or has no value. */
export function readBenchOptions() {
  try {
    return parseArgs({ options: benchOptions }).values
  } catch (error) {
    // That of Node names the option and what is wrong with it, and then gives advice.
    const [problem] = error instanceof Error ? error.message.split(/\.(?: |$)/) : []
    process.stderr.write(`${problem}; see npm run bench -- --help\n`)
    return process.exit(2)
  }
}
