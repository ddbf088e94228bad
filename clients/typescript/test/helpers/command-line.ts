import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { capture } from '../../../../test/helpers/cli.ts'
import { minimalEnvironment } from '../../../../test/helpers/process.ts'
import { execute } from '../../src/cli/execute.ts'

const main = resolve(import.meta.dirname, '../../src/cli/main.ts')

interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

export interface Running {
  child: ChildProcess
  finished: Promise<Finished>
  /** Resolves when stdout or stderr holds the text. */
  printed(text: string): Promise<void>
}

export interface CommandLineOptions {
  env?: Record<string, string>
  cwd?: string
  /** The program that reads the arguments; by default `commit-status` of the package. */
  program?: readonly string[]
  /** What it reads from stdin; nothing by default. */
  input?: string
  /** Whether it leads a process group of its own. */
  detached?: boolean
}

/** Starts `commit-status` with an environment of PATH alone, by default in an empty folder. */
export function commandLine(t: Test, args: readonly string[], options: CommandLineOptions = {}): Running {
  const cwd = options.cwd ?? mkdtempSync(join(tmpdir(), 'job-'))
  if (!options.cwd) t.teardown(() => rmSync(cwd, { recursive: true, force: true }))
  const [file = '', ...before] = options.program ?? [process.execPath, main]
  const child = spawn(file, [...before, ...args], {
    cwd,
    env: { ...minimalEnvironment(), ...options.env },
    stdio: 'pipe',
    detached: options.detached ?? false,
  })
  // A program that reads nothing may be gone already.
  child.stdin.on('error', () => {}).end(options.input ?? '')
  t.teardown(() => child.kill('SIGKILL'))
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  return {
    child,
    finished: new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('close', (code) => resolve({ code, stdout, stderr }))
    }),
    printed: (text) =>
      new Promise((resolve) => {
        const look = () => [stdout, stderr].some((output) => output.includes(text)) && resolve()
        for (const stream of [child.stdout, child.stderr]) stream.on('data', look)
        look()
      }),
  }
}

/**
 * Runs `commit-status` in this process, which is faster, for what depends on neither the folder nor
 * signals.
 */
export function call(args: string[], env: Record<string, string>): Promise<Finished> {
  return capture(() => execute(args, env))
}
