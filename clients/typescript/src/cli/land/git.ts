import { execFile } from 'node:child_process'

export interface GitResult {
  /** -1 for a git that did not start or was ended. */
  code: number
  stdout: string
  stderr: string
}

/** Runs git in the checkout of the current folder. Rejects only with the reason of the signal. */
export type Git = (
  args: readonly string[],
  options?: { input?: string; env?: Record<string, string> },
) => Promise<GitResult>

interface GitOptions {
  /** The only address that gets the token. */
  url: string
  token: string
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
  // The same commit whatever the configuration.
  ['i18n.commitEncoding', 'UTF-8'],
] as const

/** Creates a git whose token is in its environment, never in its arguments. */
export function createGit(env: NodeJS.ProcessEnv, { url, token, signal, timeout }: GitOptions): Git {
  const authorization = `Authorization: Basic ${Buffer.from(`x:${token}`).toString('base64')}`
  // An empty value drops the headers that the configuration has for this address.
  const headers = ['', authorization].map((value) => [`http.${url}.extraHeader`, value] as const)
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
  return (args, { input, env: more } = {}) =>
    new Promise((resolve, reject) => {
      const options = {
        env: { ...env, ...own, ...more },
        maxBuffer: 2 ** 26,
        timeout: Math.ceil(timeout()),
        signal,
      }
      const child = execFile('git', args, options, (error, stdout, stderr) => {
        if (signal?.aborted) return reject(signal.reason)
        const code = error ? (typeof error.code === 'number' ? error.code : -1) : 0
        resolve({ code, stdout, stderr: stderr || (error?.message ?? '') })
      })
      child.stdin?.on('error', () => {}).end(input ?? '')
    })
}

/** Returns what git says went wrong, without what it says while it works. */
export function reasonOf({ stderr }: GitResult): string {
  const lines = stderr.split('\n').filter((line) => /^(?:fatal|error|remote): /.test(line))
  return lines.at(-1)?.replace(/^\w+: /, '') ?? stderr.trim()
}
