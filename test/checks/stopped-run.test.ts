import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startProcess } from '../helpers/process.ts'
import { until } from '../helpers/until.ts'

t.test('a run that is stopped leaves no process behind', async (t) => {
  const list = join(t.testdir(), 'processes')
  const program = [join(import.meta.dirname, '../run.ts'), 'test/checks/fixtures/endless.ts']
  const run = startProcess(t, process.execPath, program, { PROCESS_LIST: list })
  await until(() => existsSync(list))
  const processes = readFileSync(list, 'utf8').split(' ').map(Number)
  t.same(processes.filter(isRunning), processes, 'the runner, a test and what it has started')
  run.child.kill('SIGTERM')
  t.equal(await run.ended, 1)
  await until(() => !processes.some(isRunning))
})

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
