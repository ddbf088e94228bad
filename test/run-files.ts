import t from 'tap'

/**
 * Runs test files as subtests of one tap test, four processes at a time. Node runs TypeScript
 * itself. Tap's own command would first load its loader for TypeScript into each process, which
 * takes longer than most tests.
 */
const [, , ...files] = process.argv
/** What takes longest begins first and alone, so that nothing runs alone at the end. */
const SLOWEST = [
  'test/web/browser.test.ts',
  'test/git-http/push/gate.test.ts',
  'test/contract/server.test.ts',
]
/**
 * Files in one process: starting one takes longer than many files, but one that has grown takes
 * longer to start git.
 */
const MOST = 3
/** Where few tests start programs. */
const MOST_WITHOUT_PROGRAMS = 6
const WITHOUT_PROGRAMS = /^test\/(api|checks|codegen|domain|store|util)\//
/**
 * MiB of new objects, as in the server: most of what a test creates is garbage when they are full.
 */
const NEW_OBJECTS = 16

t.jobs = 4
// TAP_TIMEOUT limits each file, not all of them together.
t.setTimeout(0)
// Tap would have each process, and all Node.js processes that it starts, record coverage.
const environment = `NODE_OPTIONS=${process.env.NODE_OPTIONS ?? ''}`
const options = [
  `--min-semi-space-size=${NEW_OBJECTS}`,
  `--max-semi-space-size=${NEW_OBJECTS}`,
  ...['--import', import.meta.resolve('./helpers/tap-domain.ts')],
]
const together = `${import.meta.dirname}/run-together.ts`
const groups = SLOWEST.filter((file) => files.includes(file)).map((file) => [file])
const others = files.filter((file) => !SLOWEST.includes(file))
const plain = others.filter((file) => WITHOUT_PROGRAMS.test(file))
const rest = others.filter((file) => !WITHOUT_PROGRAMS.test(file))
while (plain.length > 0) groups.push(plain.splice(0, MOST_WITHOUT_PROGRAMS))
while (rest.length > 0) groups.push(rest.splice(0, MOST))
for (const group of groups) {
  const program = [process.execPath, ...options, together, ...group]
  t.spawn('env', [environment, ...program], { buffered: true }, group.join(' '))
}
