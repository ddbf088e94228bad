import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { startCommand } from '../../src/cli/work/command.ts'
import { openOutput } from '../../src/cli/work/output.ts'
import { findProcesses, identify, MARK } from '../../src/cli/work/processes.ts'
import { eventually } from '../helpers/working.ts'

/** Starts a shell in a session of its own; all of it ends with the test, so something of it must be left then. */
function startSession(t: Test, script: string, env: NodeJS.ProcessEnv = {}) {
  const child = spawn('sh', ['-c', script], {
    detached: true,
    stdio: 'ignore',
    env: { ...process.env, ...env },
  })
  const { pid = Number.NaN } = child
  t.teardown(() => process.kill(-pid, 'SIGKILL'))
  return { child, pid, identity: identify(pid) }
}

t.test('a session whose number an earlier command had is not of that command', async (t) => {
  const { identity } = startSession(t, 'sleep 300 & wait')
  if (!identity) throw new Error('it has ended')
  const run = 'none'
  await eventually(() => findProcesses({ run, leader: identity }).length === 2)
  t.strictSame(findProcesses({ run, leader: { ...identity, start: identity.start - 1 } }), [])
  t.strictSame(findProcesses({ run, leader: { ...identity, boot: 'another' } }), [])
})

t.test('a command that has exited is not looked for again', async (t) => {
  const run = 'exited'
  const cwd = temporaryFolder(t)
  const output = openOutput('', undefined)
  const command = startCommand({ file: 'true', args: [], cwd, env: process.env, run, output, grace: 0 })
  t.strictSame(await command.ended, { kind: 'exited', code: 0 })
  const { child } = startSession(t, 'sleep 300 & wait', { [MARK]: run })
  await eventually(() => findProcesses({ run }).length === 2)
  const ended = once(child, 'exit')
  await command.end()
  child.kill('SIGTERM')
  t.strictSame(await ended, [null, 'SIGTERM'])
})
