import '../runtime.ts'
import { CommanderError } from 'commander'
import { createProgram } from './program.ts'
import { UsageError } from './usage-error.ts'

/** Exit codes: 0, 1 when what was asked for could not be done, 2 when it was not asked for rightly. */
try {
  await createProgram(process.env).parseAsync()
} catch (error) {
  process.exitCode = exitCode(error)
}

function exitCode(error: unknown): number {
  // Commander has already said what is wrong; asked-for help is no error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`)
  return error instanceof UsageError ? 2 : 1
}
