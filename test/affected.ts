import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { affectedTests, changesSince } from './checks/affected-tests.ts'

/**
 * Runs the test files that belong to what was changed since a commit (default: since the last one),
 * committed or not: `npm run affected -- [COMMIT]`. With `--list` it prints them, the nearest
 * first.
 */
const [commit = 'HEAD'] = process.argv.slice(2).filter((argument) => !argument.startsWith('-'))
const tests = affectedTests(changesSince(commit))
if (process.argv.includes('--list')) process.stdout.write(tests.map((test) => `${test}\n`).join(''))
else if (tests.length > 0) {
  const run = spawnSync(process.execPath, [join(import.meta.dirname, 'run.ts'), ...tests], {
    stdio: 'inherit',
  })
  process.exitCode = run.status ?? 1
}
