import { type ChildProcess, spawn } from 'node:child_process'

/** How a command ended. */
export type Ending =
  | { kind: 'exited'; code: number }
  | { kind: 'killed'; signal: NodeJS.Signals }
  | { kind: 'not started'; reason: string }

/** A command that runs with our own standard streams. */
export interface Command {
  ended: Promise<Ending>
  /** Passes a signal on. */
  kill(signal: NodeJS.Signals): void
}

/** Starts a command; that it cannot be started is an ending too. */
export function start(name: string, args: readonly string[]): Command {
  const child = trySpawn(name, args)
  if ('reason' in child) return { ended: Promise.resolve({ kind: 'not started', ...child }), kill: () => {} }
  const ended = new Promise<Ending>((resolve) => {
    child.on('error', (error) => {
      // A signal that could not be sent is an error too, of a command that runs.
      if (child.pid === undefined) resolve({ kind: 'not started', reason: reasonOf(error) })
    })
    child.on('exit', (code, signal) => {
      if (signal !== null) resolve({ kind: 'killed', signal })
      else if (code !== null) resolve({ kind: 'exited', code })
    })
  })
  return { ended, kill: (signal) => void child.kill(signal) }
}

/** Some failures are thrown, such as a NUL character in an argument. */
function trySpawn(name: string, args: readonly string[]): ChildProcess | { reason: string } {
  try {
    return spawn(name, args, { stdio: 'inherit' })
  } catch (error) {
    return { reason: reasonOf(error) }
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof Error) return 'code' in error ? String(error.code) : error.message
  return String(error)
}
