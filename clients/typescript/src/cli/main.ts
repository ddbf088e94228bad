#!/usr/bin/env node
import { execute } from './execute.ts'
import { say } from './terminal.ts'

/**
 * Sends requests through the proxy that the environment names, as curl does. A wrong value must not
 * end a build.
 */
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
const exitCode = await execute(process.argv.slice(2), process.env)
// A connection that is still being opened would keep the process alive.
process.stdout.write('', () => process.exit(exitCode))
