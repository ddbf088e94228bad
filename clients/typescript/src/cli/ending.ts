import { constants } from 'node:os'
import type { StatusReport } from '../index.ts'
import type { Ending } from './command.ts'
import { formatDuration } from './duration.ts'
import { readJunit } from './junit.ts'

/** What is reported of a command that has ended, and the exit code for it. */
export interface CommandResult {
  state: StatusReport['state']
  description: string
  exitCode: number
}

interface EndingContext {
  cancelledBy?: NodeJS.Signals | undefined
  /** JUnit files. */
  files: readonly string[]
  /** When the command was started, in milliseconds since the epoch. */
  since: number
}

/** Exit codes of a shell for a command that is not there, or that it cannot execute. */
const NOT_FOUND = 127
const NOT_EXECUTABLE = 126

/** The first is also that of a script whose interpreter is missing. */
const startErrors: Record<string, string> = {
  ENOENT: 'no such command or file',
  EACCES: 'not executable',
}

/** Returns what to report of a command that ended after so many milliseconds. */
export async function describeResult(
  ending: Ending,
  milliseconds: number,
  { cancelledBy, files, since }: EndingContext,
): Promise<CommandResult> {
  const { state, ...result } = resultOf(ending, milliseconds, cancelledBy)
  const tests = state === 'error' ? undefined : await readJunit(files, since)
  // Where no test failed, something else did.
  const isTold = tests && (tests.failed > 0 || state === 'success')
  return { ...result, state, ...(isTold && { description: tests.description }) }
}

/** Returns why a command could not be started, in words where the error is a usual one. */
export function describeStartError(reason: string): string {
  const words = startErrors[reason]
  return `could not be started: ${words ? `${words} (${reason})` : reason}`
}

function resultOf(
  ending: Ending,
  milliseconds: number,
  cancelledBy: NodeJS.Signals | undefined,
): CommandResult {
  const after = `after ${formatDuration(milliseconds)}`
  if (ending.kind === 'not started') {
    const exitCode = ending.reason === 'ENOENT' ? NOT_FOUND : NOT_EXECUTABLE
    return { state: 'error', description: describeStartError(ending.reason), exitCode }
  }
  const exitCode = ending.kind === 'killed' ? 128 + constants.signals[ending.signal] : ending.code
  // A check that was cut short has shown nothing, whatever exit code its command chose.
  if (cancelledBy) return { state: 'error', description: `cancelled by ${cancelledBy} ${after}`, exitCode }
  if (ending.kind === 'killed') {
    return { state: 'error', description: `killed by ${ending.signal} ${after}`, exitCode }
  }
  if (exitCode !== 0) return { state: 'failure', description: `exit code ${exitCode} ${after}`, exitCode }
  return { state: 'success', description: `passed in ${formatDuration(milliseconds)}`, exitCode }
}
