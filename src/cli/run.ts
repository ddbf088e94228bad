import { CommanderError } from 'commander'
import { createProgram } from './program.ts'
import { UsageError } from './usage-error.ts'

/**
 * Runs one command.
 *
 * @returns exit code: 0, 1 when what was asked for could not be done, 2 when it was not asked for rightly
 */
export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  try {
    await createProgram(environment).parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    // Commander has already said what is wrong; asked-for help is no error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    const message = error instanceof Error ? error.message : String(error)
    // The names of keys and files in it may be somebody else's: none of them moves the cursor.
    process.stderr.write(`error: ${message.replace(/[^\P{Cc}\n\t]/gu, '\ufffd')}\n`)
    return error instanceof UsageError ? 2 : 1
  }
}
