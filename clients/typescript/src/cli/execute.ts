import { readFileSync } from 'node:fs'
import { exitCodes } from './exit-codes.ts'
import { gate } from './gate.ts'
import { get } from './get.ts'
import { help } from './help.ts'
import { land } from './land/land.ts'
import { report } from './report.ts'
import { run } from './run.ts'
import { say, sayBug } from './terminal.ts'
import { UsageError } from './usage-error.ts'
import { wait } from './wait.ts'

const commands = new Map<string, (args: string[], env: NodeJS.ProcessEnv) => Promise<number>>([
  ['report', report],
  ['run', run],
  ['get', get],
  ['wait', wait],
  ['land', land],
  ['gate', gate],
])

/** Runs the command that the arguments name, and returns the exit code. */
export async function execute([name, ...args]: string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (name === 'help' || asksForHelp(name) || asksForHelp(args[0])) {
    process.stdout.write(help)
    return exitCodes.success
  }
  if (name === '--version') {
    process.stdout.write(`${version()}\n`)
    return exitCodes.success
  }
  const command = commands.get(name ?? '')
  try {
    if (!command) throw new UsageError(name ? `unknown command "${name}"` : 'missing command')
    return await command(args, env)
  } catch (error) {
    if (!(error instanceof UsageError)) {
      sayBug(error)
      return exitCodes.unanswered
    }
    say(error.message)
    process.stderr.write(command ? 'See commit-status --help\n' : `\n${help}`)
    return exitCodes.usage
  }
}

/** Later words may be values, or belong to the command of `run`. */
function asksForHelp(word: string | undefined): boolean {
  return word === '--help' || word === '-h'
}

function version(): string {
  const manifest: { version: string } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  return manifest.version
}
