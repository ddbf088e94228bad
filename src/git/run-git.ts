import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import { gitEnvironment } from './environment.ts'
import { RepositoryUnavailable } from './repository-health.ts'

/** A repository to run git on. */
export interface GitTarget {
  /** Its location, for messages. */
  path: string
  /** The git directory that git is run on: see `gitDirOf`. */
  gitDir: string
}

/** Receives git's output. */
export interface GitOutput {
  push(chunk: Buffer): void
  /** Whether nothing more is wanted; then git is stopped. */
  readonly isFull: boolean
}

/** How a git process ended. */
export interface GitEnd {
  /** undefined if git succeeded. */
  failure?: string
  /** The end of its standard error. */
  complaint: string
}

/** git did not answer in time. */
export class GitTimeout extends RepositoryUnavailable {}

const COMPLAINT_LENGTH = 2000
/** Milliseconds and bytes of a command with little output. */
const TIMEOUT = 10_000
const MAX_OUTPUT = 16 * 1024 * 1024

const execute = promisify(execFile)

/**
 * Returns what git prints, for commands that print little. It is decoded as Latin-1, because names of refs may not be UTF-8.
 *
 * @param gitDir the git directory that git is run on: see `gitDirOf`
 * @param signal kills git; without it git is killed after 10 s
 * @throws git's error
 */
export async function readGit(
  gitDir: string,
  args: readonly string[],
  signal?: AbortSignal,
): Promise<string> {
  const { stdout } = await execute('git', [`--git-dir=${gitDir}`, ...args], {
    cwd: '/',
    env: gitEnvironment(gitDir),
    encoding: 'latin1',
    maxBuffer: MAX_OUTPUT,
    killSignal: 'SIGKILL',
    ...(signal ? { signal } : { timeout: TIMEOUT }),
  })
  return stdout
}

/**
 * Runs git and passes its output on.
 *
 * @param timeout milliseconds after which git is killed
 * @param signal kills git and rejects with its reason
 * @throws GitTimeout
 */
export async function runGit(
  target: GitTarget,
  args: readonly string[],
  output: GitOutput,
  timeout: number,
  signal?: AbortSignal,
): Promise<GitEnd> {
  const deadline = AbortSignal.timeout(timeout)
  const either = signal === undefined ? deadline : AbortSignal.any([deadline, signal])
  const end = await start(target.gitDir, args, output, either)
  signal?.throwIfAborted()
  if (deadline.aborted) throw new GitTimeout(`git ${args[0]} did not answer in time for ${target.path}`)
  return end
}

function start(
  gitDir: string,
  args: readonly string[],
  output: GitOutput,
  signal: AbortSignal,
): Promise<GitEnd> {
  return new Promise((resolve) => {
    const child = spawn('git', ['--git-dir', gitDir, ...args], {
      cwd: '/',
      env: gitEnvironment(gitDir),
      stdio: ['ignore', 'pipe', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    })
    let complaint = ''
    child.on('error', (error) => {
      // If the process cannot be started there is no `close`.
      if (child.pid === undefined) resolve({ failure: error.message, complaint })
    })
    child.on('close', (code, killedBy) => {
      resolve(code === 0 ? { complaint } : { failure: `it ended with ${killedBy ?? code}`, complaint })
    })
    child.stdout?.on('data', (chunk: Buffer) => {
      output.push(chunk)
      if (output.isFull) child.kill('SIGKILL')
    })
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      complaint = (complaint + chunk).slice(-COMPLAINT_LENGTH).trim()
    })
  })
}
