import t from 'tap'

/**
 * Runs test files, three at a time, since many of them wait most of the time, as subtests of one tap test. Node runs TypeScript itself: started by tap's own command,
 * each file would first load tap's loader for TypeScript, which takes more time than most tests.
 */
const [, , ...files] = process.argv
t.jobs = 3
// TAP_TIMEOUT limits each file, not all of them together.
t.setTimeout(0)
for (const file of files) t.spawn(process.execPath, [file], { buffered: true }, file)
