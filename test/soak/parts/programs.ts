import { execFileSync } from 'node:child_process'
import { resolve } from 'node:path'
import { isInstalled } from '../../helpers/process.ts'

const root = resolve(import.meta.dirname, '../../..')

/** Runs a command in the project's folder. @returns what it printed on standard output */
export function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  }).trim()
}

/**
 * Makes sure that a program is installed, with apt-get if possible.
 *
 * @param packageName of Debian, which has the program
 * @throws Error that says what is missing
 */
export function requireProgram(program: string, packageName = program): void {
  if (isInstalled(program)) return
  process.stderr.write(`${program} is missing; trying "apt-get install ${packageName}"\n`)
  try {
    for (const args of [
      ['update', '-qq'],
      ['install', '-qq', '-y', '--no-install-recommends', packageName],
    ])
      execFileSync('apt-get', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  } catch (cause) {
    throw new Error(`${program} is missing and could not be installed: install it first`, { cause })
  }
}
