#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { exitCodes } from './exit-codes.ts'
import { gate } from './gate.ts'
import { get } from './get.ts'
import { help } from './help.ts'
import { report } from './report.ts'
import { run } from './run.ts'
import { say } from './terminal.ts'
import { UsageError } from './usage-error.ts'
import { wait } from './wait.ts'

const commands = new Map([
  ['report', report],
  ['run', run],
  ['get', get],
  ['wait', wait],
  ['gate', gate],
])

async function main([name, ...args]: string[]): Promise<number> {
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
    return await command(args, process.env)
  } catch (error) {
    if (!(error instanceof UsageError)) {
      process.stderr.write(`commit-status: ${error instanceof Error ? error.stack : error}\n`)
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

/** Sends requests through the proxy that the environment names, as curl does. A wrong value must not end a build. */
async function useProxy(env: NodeJS.ProcessEnv): Promise<void> {
  const names = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy']
  const name = names.find((name) => env[name])
  if (!name || env.NODE_USE_ENV_PROXY === '1') return
  const { setGlobalProxyFromEnv }: Partial<typeof import('node:http')> = await import('node:http')
  try {
    if (setGlobalProxyFromEnv) setGlobalProxyFromEnv(env)
    else say(`${name} is ignored before Node 24.14; Node 22.21 heeds it with NODE_USE_ENV_PROXY=1`)
  } catch {
    say(`${name} is ignored, since a proxy variable is not a URL`)
  }
}

// A closed pipe must not change how a build ends.
process.stdout.on('error', () => {})
process.stderr.on('error', () => {})
await useProxy(process.env)
const exitCode = await main(process.argv.slice(2))
// A connection that is still being opened would keep the process alive.
process.stdout.write('', () => process.exit(exitCode))
