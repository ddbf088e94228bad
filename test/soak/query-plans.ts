import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'

/** The test of query plans among 1,000,000 statuses. */
const root = resolve(import.meta.dirname, '../..')
const test = spawn(process.execPath, ['test/run.ts', 'test/store/query-plans.test.ts'], {
  cwd: root,
  env: { ...process.env, QUERY_PLAN_STATUSES: '1000000' },
  stdio: 'inherit',
})
const [code] = await once(test, 'exit')
process.exitCode = code
