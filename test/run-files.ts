import t from 'tap'

/**
 * Runs test files as subtests of one tap test, four at a time. Node runs TypeScript itself. Tap's own command would first
 * load its loader for TypeScript into each process, which takes longer than most tests.
 */
const [, , ...files] = process.argv
t.jobs = 4
// TAP_TIMEOUT limits each file, not all of them together.
t.setTimeout(0)
// Tap would have each process, and all Node.js processes that it starts, record coverage.
const environment = `NODE_OPTIONS=${process.env.NODE_OPTIONS ?? ''}`
const withoutDomains = ['--import', import.meta.resolve('./helpers/tap-domain.ts')]
for (const file of files)
  t.spawn('env', [environment, process.execPath, ...withoutDomains, file], { buffered: true }, file)
