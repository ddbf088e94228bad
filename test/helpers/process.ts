import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'

const root = resolve(import.meta.dirname, '../..')

/**
 * Returns an environment without the variables of the tests. The compile cache speeds up the start
 * of a program.
 */
export function minimalEnvironment(): NodeJS.ProcessEnv {
  const { PATH, TMPDIR, NODE_COMPILE_CACHE } = process.env
  return { PATH, ...(TMPDIR && { TMPDIR }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }
}

/** Returns whether a program is in a folder of PATH. */
export function isInstalled(program: string): boolean {
  try {
    execFileSync('which', [program], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** A process under test. The teardown kills it if it is still running. */
export interface TestProcess {
  child: ChildProcess
  /** Output so far. */
  stdout(): string
  stderr(): string
  /** Waits until stdout matches. Rejects if the process ends first. */
  printed(pattern: RegExp): Promise<RegExpExecArray>
  /** Exit code, or the signal that killed it. */
  ended: Promise<number | string | null>
}

/**
 * Starts a command in the project's folder, with the environment of this process, overridden by
 * `environment`.
 */
export function startProcess(
  t: Test,
  command: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): TestProcess {
  const child = spawn(command, args, {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const stdout = gather(child.stdout)
  const stderr = gather(child.stderr)
  const ended = once(child, 'close').then(([code, signal]) => code ?? signal)
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
  })

  async function printed(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(stdout())
      if (found) return found
      const over = await Promise.race([once(child.stdout, 'data').then(() => false), ended.then(() => true)])
      if (over && !pattern.test(stdout())) throw new Error(`ended without ${pattern}: ${stdout()}${stderr()}`)
    }
  }

  return { child, stdout, stderr, printed, ended }
}

function gather(stream: Readable): () => string {
  let text = ''
  stream.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  return () => text
}

/** Returns the memory of a process in MiB: now, or at most so far. */
export function memoryOf(pid: number | undefined, when: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const [, kib] =
    new RegExp(`^${when}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Math.round(Number(kib) / 1024)
}
