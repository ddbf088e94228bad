import { type ChildProcess, spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { say } from './terminal.ts'
import { UsageError } from './usage-error.ts'

export interface GitResult {
  /** Negative for a git that did not start or was ended. */
  code: number
  stdout: string
  stderr: string
}

/**
 * Milliseconds for a push to end after the signal. What was sent, the server may carry out at any
 * time, so it is not known before its answer what to remove.
 */
const LAST_PUSH = 10_000

/** Prefix of the branches that CI builds for landings. */
export const TOPICS = 'land/'

/** Runs git in the current folder. Rejects only with the reason of the signal. */
export type Git = (
  args: readonly string[],
  options?: { input?: string; env?: Record<string, string> },
) => Promise<GitResult>

interface GitOptions {
  /** The only address that gets the token. */
  url?: string
  token?: string
  signal?: AbortSignal | undefined
  /** Longest time of one command, in milliseconds. */
  timeout(): number
}

const SETTINGS = [
  // Nothing but the token is tried, and it is sent nowhere else.
  ['credential.helper', ''],
  ['http.followRedirects', 'false'],
  // Exactly what is named is pushed and fetched.
  ['push.followTags', 'false'],
  ['push.gpgSign', 'false'],
  ['push.pushOption', ''],
  ['push.recurseSubmodules', 'no'],
  ['fetch.recurseSubmodules', 'false'],
  ['fetch.prune', 'false'],
  ['fetch.pruneTags', 'false'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  // A connection on which nothing has come for so many seconds is lost. The server lets a push wait for 45,
  // and git work on it for 600 by default.
  ['http.lowSpeedLimit', '1'],
  ['http.lowSpeedTime', '700'],
  // The same commit whatever the configuration.
  ['i18n.commitEncoding', 'UTF-8'],
] as const

/** Creates a git whose token, if any, is in its environment, never in its arguments. */
export function createGit(env: NodeJS.ProcessEnv, { url, token, signal, timeout }: GitOptions): Git {
  const basic = token && Buffer.from(`x:${token}`).toString('base64')
  // An empty value drops the headers that the configuration has for this address.
  const values = basic ? ['', `Authorization: Basic ${basic}`] : []
  const headers = values.map((value) => [`http.${url}.extraHeader`, value] as const)
  const first = Number(env.GIT_CONFIG_COUNT) || 0
  const settings = [...SETTINGS, ...headers].flatMap(([key, value], index): [string, string][] => [
    [`GIT_CONFIG_KEY_${first + index}`, key],
    [`GIT_CONFIG_VALUE_${first + index}`, value],
  ])
  const own: Record<string, string> = {
    ...Object.fromEntries(settings),
    GIT_CONFIG_COUNT: String(first + settings.length / 2),
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '',
    // They can be pushed, and would change who is whose ancestor.
    GIT_NO_REPLACE_OBJECTS: '1',
    LC_ALL: 'C',
  }
  return async (args, { input = '', env: more } = {}) => {
    signal?.throwIfAborted()
    const isPush = args[0] === 'push' && !args.includes('--dry-run')
    // In a process group of its own, since Ctrl+C ends the whole group.
    const child = spawn('git', args, {
      env: { ...env, ...own, ...more },
      detached: true,
      windowsHide: true,
    })
    let problem = ''
    const end = () => {
      problem = 'it took too long'
      if (isPush) say('a push did not end in time; it may still create a ticket or a branch on the server')
      endGroup(child)
      // A process that has left the group may keep them open.
      child.stdout.destroy()
      child.stderr.destroy()
    }
    let timer = setTimeout(end, timeout())
    const interrupt = () => {
      clearTimeout(timer)
      timer = setTimeout(end, isPush ? LAST_PUSH : 0)
    }
    signal?.addEventListener('abort', interrupt)
    child.on('error', ({ message }) => {
      problem = message
    })
    child.stdin.on('error', () => {}).end(input)
    const closed = new Promise<number | null>((resolve) => child.on('close', resolve))
    const [stdout, stderr] = await Promise.all(
      [child.stdout, child.stderr].map((stream) => text(stream).catch(() => '')),
    )
    const code = await closed
    clearTimeout(timer)
    signal?.removeEventListener('abort', interrupt)
    // One that ended by itself at that moment has lost its output.
    if (code === null || problem) signal?.throwIfAborted()
    return { code: code ?? -1, stdout: stdout ?? '', stderr: stderr || problem }
  }
}

/** Ends a git that leads a process group, with what it has started there, such as a hook. */
function endGroup(leader: ChildProcess): void {
  if (leader.pid === undefined) return
  try {
    process.kill(-leader.pid, 'SIGTERM')
  } catch {
    // Windows has no process groups, and one that has ended is gone.
    leader.kill()
  }
}

/**
 * Checks that git is not too old for a command.
 *
 * @param oldest the first version that will do, such as `2.38`
 * @throws UsageError if it is older, or missing
 */
export async function checkVersion(git: Git, command: string, oldest: string): Promise<void> {
  const version = /^git version (\d+\.\d+)/.exec((await git(['version'])).stdout)?.[1] ?? 'missing'
  if (!(version.localeCompare(oldest, 'en', { numeric: true }) >= 0))
    throw new UsageError(`git is ${version}; ${command} needs ${oldest} or later`)
}

/** Returns what git says went wrong, without what it says while it works. */
export function reasonOf({ stderr }: GitResult): string {
  const lines = stderr.split('\n').filter((line) => /^(?:fatal|error|remote): /.test(line))
  // The last lines of a push whose connection failed, or of an object that cannot be written, say nothing else.
  const vague = /hung up unexpectedly$|^error: failed to push some refs|: Unable to add \S+ to database$/
  const reasons = lines.filter((line) => !vague.test(line))
  return (reasons.at(-1) ?? lines.at(-1))?.replace(/^\w+: /, '') ?? stderr.trim()
}
