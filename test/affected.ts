import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { affectedTests, changesSince } from './checks/affected-tests.ts'
import { expectedSeconds } from './times.ts'

/**
 * Runs the test files that belong to what was changed since a commit (default: since the last one),
 * committed or not: `npm run affected -- [COMMIT]`. Of those that neither import nor name a changed
 * file, it runs the nearest that end in time, and prints the others. With `--list` it prints all of
 * them, the nearest first.
 */
const [commit = 'HEAD'] = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))
/** Seconds that these test files take for each changed file: of all cores, and the one that takes longest. */
const [CPU, WALL] = [16, 12]
const changes = changesSince(commit)
const all = affectedTests(changes)
if (process.argv.includes('--list')) printLines(all)
else if (all.length > 0) {
  const tests = affectedTests(changes, nearestInTime)
  const run = spawnSync(process.execPath, [join(import.meta.dirname, 'run.ts'), ...tests], {
    stdio: 'inherit',
  })
  const others = all.filter((test) => !tests.includes(test))
  if (others.length > 0) printLines(['', 'Not run, because they take longer:', ...others])
  process.exitCode = run.status ?? 1
}

function nearestInTime(tests: readonly string[]): string[] {
  const [cpu, wall] = [expectedSeconds(tests, 'cpu'), expectedSeconds(tests, 'wall')]
  let rest = CPU
  return tests.filter((test) => {
    const seconds = cpu.get(test) ?? 0
    const isInTime = seconds <= rest && (wall.get(test) ?? 0) <= WALL
    if (isInTime) rest -= seconds
    return isInTime
  })
}

function printLines(lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${line}\n`).join(''))
}
