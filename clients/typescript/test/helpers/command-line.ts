import { type ChildProcess, spawn } from 'node:child_process'
import { EventEmitter, EventEmitterAsyncResource } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import { capture } from '../../../../test/helpers/cli.ts'
import { minimalEnvironment } from '../../../../test/helpers/process.ts'
import { until } from '../../../../test/helpers/until.ts'
import { SAME_SIGNAL, type SignalSource } from '../../src/cli/cancellation.ts'
import { execute } from '../../src/cli/execute.ts'

const main = resolve(import.meta.dirname, '../../src/cli/main.ts')

interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

export interface Running {
  finished: Promise<Finished>
  /** What it has printed so far. */
  output: { stdout: string; stderr: string }
  /** Resolves when stdout or stderr holds the text. */
  printed(text: string): Promise<void>
  kill(signal: NodeJS.Signals): void
}

export interface RunningProcess extends Running {
  child: ChildProcess
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
export function commandLine(
  t: Test,
  args: readonly string[],
  options: CommandLineOptions = {},
): RunningProcess {
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
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  return {
    child,
    output,
    kill: (signal) => void child.kill(signal),
    finished: new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('close', (code) => resolve({ code, ...output }))
    }),
    printed: (text) =>
      new Promise((resolve) => {
        const look = () => holds(output, text) && resolve()
        for (const stream of [child.stdout, child.stderr]) stream.on('data', look)
        look()
      }),
  }
}

const holds = ({ stdout, stderr }: Running['output'], text: string) =>
  stdout.includes(text) || stderr.includes(text)

/**
 * Starts a command line in this process, which is faster, for what neither prints through programs nor
 * ends by signals that it does not listen for.
 */
export function startHere(t: Test, command: (signals: SignalSource) => Promise<number>): Running {
  const output = { stdout: '', stderr: '' }
  // What listeners print is captured too.
  let signals: EventEmitter | undefined
  let hasEnded = false
  const finished = capture(() => {
    signals = new EventEmitterAsyncResource({ name: 'signals' })
    return command(signals)
  }, output).finally(() => {
    hasEnded = true
  })
  t.teardown(async () => {
    while (!hasEnded) {
      signals?.emit('SIGTERM', 'SIGTERM')
      await Promise.race([finished, setTimeout(2 * SAME_SIGNAL)])
    }
  })
  return {
    finished,
    output,
    kill(signal) {
      if (!signals?.emit(signal, signal)) throw new Error(`${signal} would end the tests`)
    },
    printed: (text) => until(() => holds(output, text)),
  }
}

/**
 * Runs `commit-status` in this process, for what depends on neither the folder nor how the process
 * ends.
 */
export async function call(args: string[], env: Record<string, string>): Promise<Finished> {
  return capture(() => execute(args, env, new EventEmitter()))
}

/** Runs it in a folder. Nothing else may depend on the folder of this process meanwhile. */
export async function callIn(folder: string, args: string[], env: Record<string, string>): Promise<Finished> {
  const before = process.cwd()
  process.chdir(folder)
  try {
    return await call(args, env)
  } finally {
    process.chdir(before)
  }
}
