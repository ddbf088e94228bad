import { spawnSync } from 'node:child_process'
import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import { affectedTests, changesSince } from './checks/affected-tests.ts'
import { expectedSeconds } from './times.ts'

/**
 * Runs test files that belong to what was changed since a commit (default: since the last one),
 * committed or not: `npm run affected -- [COMMIT]`. It runs the changed ones and, for each changed
 * file, the nearest that end within 20 seconds on two quiet cores, and prints the others. With
 * `--list` it prints all of them, the nearest first.
 */
const [commit = 'HEAD'] = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))
/**
 * Seconds that the test files for a changed file may be expected to take: of all cores, and the one
 * that takes longest. Databases and processes are started in the rest.
 */
const [CPU, WALL] = [14, 8]
/**
 * Seconds after the first ones in which others start, since some take longer than expected: more
 * where other programs use the cores.
 */
const LATEST_START = 7 * Math.max(1, (loadavg()[0] ?? 0) / availableParallelism())
const changes = changesSince(commit)
const changed = changes.map(({ file }) => file)
const all = affectedTests(changes)
if (process.argv.includes('--list')) printLines(all)
else if (all.length > 0) {
  const tests = nearestInTime()
  if (tests.length > 0) run(tests)
  const others = all.filter((test) => !tests.includes(test))
  if (others.length > 0) printLines(['', 'Not run, because they take longer:', ...others])
}

function run(tests: readonly string[]): void {
  const limit = tests.some((test) => changed.includes(test))
    ? []
    : [`--start-within=${LATEST_START * changes.length}`]
  const program = [join(import.meta.dirname, 'run.ts'), ...limit, ...tests]
  process.exitCode = spawnSync(process.execPath, program, { stdio: 'inherit' }).status ?? 1
}

function nearestInTime(): string[] {
  const [cpu, wall] = [expectedSeconds(all, 'cpu'), expectedSeconds(all, 'wall')]
  let rest = CPU * changes.length
  return all.filter((test) => {
    if (changed.includes(test)) return true
    const seconds = cpu.get(test) ?? 0
    const isInTime = seconds <= rest && (wall.get(test) ?? 0) <= WALL
    if (isInTime) rest -= seconds
    return isInTime
  })
}

function printLines(lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${line}\n`).join(''))
}
