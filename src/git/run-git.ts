import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { hasCode, isSystemError } from '../util/expected-errors.ts'
import { gitEnvironment } from './environment.ts'
import { GitFailed, GitTimeout } from './errors.ts'
import type { OpenedRepository } from './opened-repository.ts'

/** Receives git's output. */
export interface GitOutput {
  push(chunk: Buffer): void
  /** Whether nothing more is wanted; then git is stopped. */
  readonly isFull?: boolean
  /** Receives standard error as it comes. */
  pushError?(text: string): void
  /** Receives the end of standard error if git succeeded. */
  warn?(text: string): void
}

const STDERR_LENGTH = 2000
/** Milliseconds and bytes of a command with little output. */
const TIMEOUT = 10_000
const MAX_OUTPUT = 16 * 1024 * 1024
/** KiB of memory of each process of a bounded command. git keeps all folders of a small push in it. */
const MEMORY = 1536 * 1024
/**
 * Scheduling priority of what others make git compute, as nice(1) counts: a fetch gets a third of the
 * time that the server and a proxy get, and a push a third of that.
 */
const PRIORITIES = { fetch: 5, push: 10 }

/** What others decide how much git computes for, and how they are kept from taking the processors. */
export interface GitLoad {
  kind: keyof typeof PRIORITIES
  /**
   * Milliseconds of processor time of each process, also of those that a killed server leaves. Its
   * memory is limited too.
   */
  cpuTime?: number
}

/**
 * Returns what git prints, for commands that print little. It is decoded as Latin-1, because names
 * of refs may not be UTF-8. Throws as `runGit`, and GitFailed.
 *
 * @param input see `runGit`
 */
export async function readGit(
  repository: OpenedRepository,
  args: readonly string[],
  {
    timeout = TIMEOUT,
    signal,
    input,
  }: { timeout?: number; signal?: AbortSignal | undefined; input?: string } = {},
): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  const output = {
    push: (chunk: Buffer) => {
      chunks.push(chunk)
      length += chunk.length
    },
    get isFull() {
      return length > MAX_OUTPUT
    },
  }
  const failure = await runGit(repository, args, output, timeout, signal, input)
  if (failure) throw failure
  if (output.isFull) throw new GitFailed('it printed too much', null)
  return Buffer.concat(chunks).toString('latin1')
}

/** Decodes output of `readGit` as UTF-8. */
export function decodeLatin1(output: string): string {
  return Buffer.from(output, 'latin1').toString()
}

/**
 * Runs git and passes its output on. The timeout, in milliseconds, and the signal kill it.
 *
 * @param input what it reads
 * @returns what went wrong; undefined if git succeeded or was stopped because the output is full
 * @throws GitTimeout; the signal's reason
 */
export async function runGit(
  repository: OpenedRepository,
  args: readonly string[],
  output: GitOutput,
  timeout: number,
  signal?: AbortSignal,
  input?: string,
): Promise<GitFailed | undefined> {
  const deadline = AbortSignal.timeout(timeout)
  const { child, ended } = startGit(repository, args, {
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    signal: signal === undefined ? deadline : AbortSignal.any([deadline, signal]),
    killSignal: 'SIGKILL',
  })
  child.stdin?.end(input)
  child.stdout?.on('data', (chunk: Buffer) => {
    output.push(chunk)
    if (output.isFull) child.kill('SIGKILL')
  })
  child.stderr?.on('data', (text: string) => output.pushError?.(text))
  const { code, stderr, reason } = await ended
  signal?.throwIfAborted()
  if (deadline.aborted) {
    const command = args.find((arg) => !arg.startsWith('-'))
    throw new GitTimeout(`git ${command} did not answer in time for ${repository.path}`)
  }
  if (code === 0) output.warn?.(stderr)
  return code === 0 || output.isFull ? undefined : new GitFailed(reason, code)
}

/** How a git process ended. */
export interface GitEnd {
  /** null if it was killed or could not be started. */
  code: number | null
  /** The end of its standard error. */
  stderr: string
  /** The same or, without one, how it ended. */
  reason: string
}

/**
 * Starts git for a repository, by default in its usual environment.
 *
 * @param load if others decide how much it computes: then it gives way to other processes, and leads
 * a process group, so that a signal reaches all its children
 * @returns the process; and a promise for its end, when its last child has closed standard error
 * too
 */
export function startGit(
  repository: OpenedRepository,
  args: readonly string[],
  options: SpawnOptions,
  load?: GitLoad,
): { child: ChildProcess; ended: Promise<GitEnd> } {
  const { promise: ended, resolve } = Promise.withResolvers<GitEnd>()
  const own = [...placeOf(repository, args[0]), ...args]
  const [command, all] =
    load?.cpuTime === undefined ? ['git', own] : ['/bin/sh', ['-c', boundedGit(load.cpuTime), 'git', ...own]]
  const child: ChildProcess = spawn(command, all, {
    cwd: '/',
    env: gitEnvironment(),
    detached: load !== undefined,
    ...options,
  })
  if (load && child.pid !== undefined) giveWay(child.pid, PRIORITIES[load.kind])
  let text = ''
  // If the process cannot be started there is no `exit`; without free file descriptors no `close`
  // and no streams either.
  child.on('error', ({ message }) => {
    if (child.pid === undefined) resolve({ code: null, stderr: '', reason: message })
  })
  child.on('close', (code, signal) => {
    const stderr = text.trim()
    resolve({ code, stderr, reason: stderr || `it ended with ${signal ?? code}` })
  })
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-STDERR_LENGTH)
  })
  // EPIPE means that the process has ended, which the promise tells.
  child.stdin?.on('error', () => {})
  return { child, ended }
}

/**
 * Lowers the priority of a process that leads a session. Linux may schedule the processes of a session
 * as one, by the priority of their group (sched(7)).
 */
function giveWay(pid: number, priority: number): void {
  setPriority(pid, Math.min(constants.priority.PRIORITY_LOW, getPriority() + priority))
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(priority))
  } catch (error) {
    // There is no such file, or another user than root has changed one just before.
    if (!isSystemError(error)) throw error
  }
}

/**
 * Returns a script that bounds its process before that becomes git, because Node has no option for
 * it. The service may have smaller limits, which it cannot raise.
 */
function boundedGit(cpuTime: number): string {
  return `{ ulimit -t ${Math.ceil(cpuTime / 1000)}; ulimit -d ${MEMORY}; } 2>/dev/null; exec git "$@"`
}

/** Milliseconds in which git removes its lock files after SIGTERM, before it is killed. */
const GRACE = 5_000

/**
 * Stops a process that leads a group, and all its children.
 *
 * @returns a function to call when all processes have ended
 */
export function terminateGroup(pid: number | undefined): () => void {
  const kill = (name: NodeJS.Signals) => {
    try {
      if (pid !== undefined) process.kill(-pid, name)
    } catch (error) {
      // All have ended already.
      if (!hasCode(error, 'ESRCH')) throw error
    }
  }
  kill('SIGTERM')
  const timer = setTimeout(() => kill('SIGKILL'), GRACE)
  return () => clearTimeout(timer)
}

/** Returns the options of git that name the repository of a command. */
function placeOf({ path }: OpenedRepository, command: string | undefined): string[] {
  // They get it as an argument, and would take a bare repository with a work tree for a checkout.
  if (command === 'upload-pack' || command === 'receive-pack') return []
  // git refuses to create a bare repository with a work tree, and otherwise fails if the configured
  // one does not exist.
  return command === 'init' ? [`--git-dir=${path}`] : [`--git-dir=${path}`, '--work-tree=/']
}
