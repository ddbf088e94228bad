import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { minimalEnvironment } from './process.ts'

/**
 * Runs the administrator's command line in a process whose environment is `environment` and little
 * else.
 */
export async function runCliProcess(environment: Record<string, string>, ...args: string[]) {
  const program = resolve(import.meta.dirname, '../../src/cli/main.ts')
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...minimalEnvironment(), ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])
  return { stdout, stderr, code }
}
