import { type ChildProcess, spawn } from 'node:child_process'
import { windowsCommand } from './windows-command.ts'

/** How a command ended. */
export type Ending =
  | { kind: 'exited'; code: number }
  | { kind: 'killed'; signal: NodeJS.Signals }
  | { kind: 'not started'; reason: string }

/** A running command that shares this process's standard streams. */
export interface Command {
  ended: Promise<Ending>
  /** Passes a signal on. */
  kill(signal: NodeJS.Signals): void
}

/** Starts a command. A failure to start is reported as its ending. */
export function start(name: string, args: readonly string[], env: NodeJS.ProcessEnv): Command {
  const child = trySpawn(name, args, env)
  if ('reason' in child) return { ended: Promise.resolve({ kind: 'not started', ...child }), kill: () => {} }
  const ended = new Promise<Ending>((resolve) => {
    child.on('error', (error) => {
      // A running command emits this too, when a signal could not be sent.
      if (child.pid === undefined) resolve({ kind: 'not started', reason: reasonOf(error) })
    })
    child.on('exit', (code, signal) => {
      if (signal !== null) resolve({ kind: 'killed', signal })
      else if (code !== null) resolve({ kind: 'exited', code })
    })
  })
  return { ended, kill: (signal) => void child.kill(signal) }
}

/** Some failures throw, such as a NUL character in an argument. */
function trySpawn(
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): ChildProcess | { reason: string } {
  try {
    if (process.platform !== 'win32') return spawn(name, args, { stdio: 'inherit', env })
    const command = windowsCommand(name, args, env)
    const options = { windowsVerbatimArguments: command.isVerbatim, stdio: 'inherit', env } as const
    return spawn(command.file, command.args, options)
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof Error) return 'code' in error ? String(error.code) : error.message
  return String(error)
}
