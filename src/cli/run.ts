import { type Command, CommanderError } from 'commander'
import { AlreadyExists } from '../domain/refusal.ts'
import { NoDatabase } from '../store/store.ts'
import { describeFailure } from '../util/expected-errors.ts'
import { replaceHiddenInLines } from '../util/replace-characters.ts'
import { UsageError } from './parts/arguments.ts'
import { placeNamedArguments } from './parts/named-arguments.ts'
import { createProgram, helpOf } from './program.ts'

/** What an administrator can do about a database that is not there. */
const NO_DATABASE =
  'Set DATA_DIR or DATABASE_URL to that of the server, read its variables with "--env-file FILE", or create a database with "migrate"'

/**
 * Runs one command.
 *
 * @returns exit code: 0; 1 where the command failed; 2 for a usage error; 3 where what was to be
 * created exists
 */
export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const program = createProgram(environment, args)
  let running: Command = program
  program.hook('preAction', (_program, command) => {
    running = command
  })
  try {
    await program.parseAsync(placeNamedArguments(program, args), { from: 'user' })
    return 0
  } catch (error) {
    // Commander has already printed what is wrong, or the help that was requested.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    const help = error instanceof UsageError ? ` ${helpOf(running)}` : ''
    const hint = error instanceof NoDatabase ? `. ${NO_DATABASE}` : help
    // Names of files and keys may come from others: they must not change what the terminal shows.
    process.stderr.write(`error: ${replaceHiddenInLines(describeFailure(error))}${hint}\n`)
    if (error instanceof AlreadyExists) return 3
    return error instanceof UsageError ? 2 : 1
  }
}
