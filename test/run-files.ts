import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t from 'tap'

/**
 * Runs test files as subtests of one tap test, four processes at a time. Node runs TypeScript itself. Tap's own command
 * would first load its loader for TypeScript into each process, which takes longer than most tests.
 */
const [, , ...files] = process.argv
/** What takes longest begins first, so that nothing runs alone at the end. */
const SLOWEST = [
  'test/docs/docs.test.ts',
  'clients/recipes/test/recipes.test.ts',
  'test/web/browser.test.ts',
  'test/contract/server.test.ts',
  'test/git-http/push/gate.test.ts',
  'test/packaging/install.test.ts',
  'test/store/statuses.test.ts',
  'test/cli/cli.test.ts',
  'test/web/commit-browser.test.ts',
  'test/web/load.test.ts',
]
/** Files in one process: few enough that other processes take as long. */
const MOST = 8

t.jobs = 4
// TAP_TIMEOUT limits each process, not all of them together.
t.setTimeout(0)
// Tap would have each process, and all Node.js processes that it starts, record coverage.
const environment = `NODE_OPTIONS=${process.env.NODE_OPTIONS ?? ''}`
const withoutDomains = ['--import', import.meta.resolve('./helpers/tap-domain.ts')]
const together = `${import.meta.dirname}/run-together.ts`
for (const group of groups()) {
  const program = [process.execPath, ...withoutDomains, together, ...group]
  t.spawn('env', [environment, ...program], { buffered: true }, group.join(' '))
}

/** Returns the files of each process: the slowest alone, and those of a folder together. */
function groups(): string[][] {
  const found: string[][] = []
  const folders = new Map<string, string[]>()
  for (const file of files) {
    const group = folders.get(dirname(file)) ?? []
    if (SLOWEST.includes(file) || needsItsProcess(file)) found.push([file])
    else if (group.length > 0 && group.length < MOST) group.push(file)
    else {
      const begun = [file]
      folders.set(dirname(file), begun)
      found.push(begun)
    }
  }
  const rank = ([first = '', ...more]: string[]) => {
    const place = SLOWEST.indexOf(first)
    return place >= 0 ? place : SLOWEST.length + MOST - more.length
  }
  return found.sort((left, right) => rank(left) - rank(right))
}

/**
 * Tells whether a file needs its own process: its tests run side by side or with other modes of files, it awaits something
 * before them, or they are about the processes of git that are children of this one.
 */
function needsItsProcess(file: string): boolean {
  const text = readFileSync(file, 'utf8')
  return (
    file.startsWith('test/git-http/') ||
    /^(tap|t)\.(jobs|teardown)\b|^process\.umask|^(const .* = )?await /m.test(text)
  )
}
