import { readFileSync } from 'node:fs'
import type { SignalSource } from './cancellation.ts'
import { exitCodes } from './exit-codes.ts'
import { helpFor } from './help/commands.ts'
import { renderCommandHelp, renderHelp } from './help/render.ts'
import { suggest } from './help/suggest.ts'
import { say, sayBug } from './terminal.ts'
import { UsageError } from './usage-error.ts'

type Command = (args: string[], env: NodeJS.ProcessEnv, signals: SignalSource) => Promise<number>

/** Loads each command when it is called: all of them take about as long to load as one takes to run. */
const commands = new Map<string, () => Promise<Command>>([
  ['report', async () => (await import('./report.ts')).report],
  ['run', async () => (await import('./run.ts')).run],
  ['work', async () => (await import('./work/work.ts')).work],
  ['get', async () => (await import('./get.ts')).get],
  ['wait', async () => (await import('./wait.ts')).wait],
  ['last-passed', async () => (await import('./last-passed.ts')).lastPassed],
  ['branches', async () => (await import('./branches.ts')).branches],
  ['land', async () => (await import('./land/land.ts')).land],
  ['gate', async () => (await import('./gate.ts')).gate],
  ['completion', async () => (await import('./completion/completion.ts')).completion],
])

/** Runs the command that the arguments name, and returns the exit code. */
export async function execute(
  [name = '', ...args]: string[],
  env: NodeJS.ProcessEnv,
  signals: SignalSource,
): Promise<number> {
  const command = commands.get(name)
  try {
    if (name === 'help' || asksForHelp(name)) return showHelp(args[0])
    if (name === '--version') return show(`${version()}\n`)
    if (!command) throw new UsageError(name ? unknownCommand(name) : 'missing command')
    if (asksForHelp(args[0])) return showHelp(name)
    const run = await command()
    return await run(args, env, signals)
  } catch (error) {
    if (!(error instanceof UsageError)) {
      sayBug(error)
      return exitCodes.unanswered
    }
    const isTypo = error.message.endsWith('?')
    const hint = name === '' || isTypo ? '' : ` (see commit-status ${command ? `${name} ` : ''}--help)`
    say(`${error.message}${hint}`)
    if (name === '') process.stderr.write(`\n${renderHelp()}`)
    return exitCodes.usage
  }
}

function unknownCommand(name: string): string {
  return `unknown command "${name}"${suggest(name, [...commands.keys(), 'help'])}`
}

/** @throws UsageError if there is no such command */
function showHelp(name: string | undefined): number {
  if (name === undefined || asksForHelp(name)) return show(renderHelp())
  const help = helpFor(name)
  if (!help) throw new UsageError(unknownCommand(name))
  return show(renderCommandHelp(name, help))
}

function show(text: string): number {
  process.stdout.write(text)
  return exitCodes.success
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
