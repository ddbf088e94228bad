import { spawn } from 'node:child_process'
import { sleep } from '../../sleep.ts'
import type { Ending } from '../command.ts'
import { say } from '../terminal.ts'
import type { Output } from './output.ts'
import { endProcesses, identify, type ProcessIdentity, type Trace } from './processes.ts'

/** A command that runs in a session of its own. */
export interface JobCommand {
  /** Undefined if it could not be started, or has ended already. */
  identity: ProcessIdentity | undefined
  /** Resolves when the command has ended, and all that it has started was ended. */
  ended: Promise<Ending>
  /** Ends it and all that it has started, and says what could not be ended. */
  end(): Promise<void>
}

interface CommandOptions {
  file: string
  args: readonly string[]
  cwd: string
  env: NodeJS.ProcessEnv
  /** Identifies what it starts; see `Trace`. */
  run: string
  output: Output
  /** Milliseconds between SIGTERM and SIGKILL. */
  grace: number
}

/** Milliseconds in which output arrives that was printed before the end. */
const LAST_OUTPUT = 1_000

/** Starts a command. A failure to start is reported as its ending. */
export function startCommand({ file, args, cwd, env, run, output, grace }: CommandOptions): JobCommand {
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const identity = child.pid === undefined ? undefined : identify(child.pid)
  const trace: Trace = { run, leader: identity }
  const copied = Promise.all([
    output.copy(child.stdout, process.stdout),
    output.copy(child.stderr, process.stderr),
  ]).catch(() => {})

  let hasExited = false
  const exited = new Promise<Ending>((resolve) => {
    child.on('error', (error) => {
      const reason = 'code' in error ? String(error.code) : error.message
      if (child.pid === undefined) resolve({ kind: 'not started', reason })
    })
    child.on('exit', (code, signal) => {
      hasExited = true
      resolve(signal === null ? { kind: 'exited', code: code ?? 0 } : { kind: 'killed', signal })
    })
  })
  const ended = exited.then(async (ending) => {
    await endProcesses(trace, 0)
    // What could not be ended may keep the streams open.
    await Promise.race([copied, sleep(LAST_OUTPUT)])
    child.stdout.destroy()
    child.stderr.destroy()
    return ending
  })
  return {
    identity,
    ended,
    async end() {
      if (hasExited) {
        // Its number may be that of another process by now.
        await ended
        return
      }
      const left = await endProcesses(trace, grace)
      if (left.length === 0) await ended
      else say(`warning: cannot end the processes ${left.join(', ')}`)
    },
  }
}
