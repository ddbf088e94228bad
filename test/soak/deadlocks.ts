import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'

/**
 * More than 10,000 batches of three instances on the same commits, and a long history of their reads
 * and reports: the tests of what calls share, for longer.
 */
const root = resolve(import.meta.dirname, '../..')
const files = ['test/store/postgres/calls.test.ts', 'test/store/linearizable.test.ts']
const test = spawn(process.execPath, ['test/run.ts', ...files], {
  cwd: root,
  env: { ...process.env, DEADLOCK_ROUNDS: '3500', LINEARIZABLE_STEPS: '500', TAP_TIMEOUT: '1200' },
  stdio: 'inherit',
})
const [code] = await once(test, 'exit')
process.exitCode = code
