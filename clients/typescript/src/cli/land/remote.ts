import { backoff } from '../../backoff.ts'
import { sleep } from '../../sleep.ts'
import { type Git, type GitResult, reasonOf } from '../git.ts'
import type { OutageNotice } from '../outage.ts'
import { say } from '../terminal.ts'
import { LandingEnd } from './landing-end.ts'

/** Ids by the name of the ref. */
export type Refs = ReadonlyMap<string, string>

/**
 * The repository on the server. What may be over soon is tried again; anything else ends the
 * landing.
 */
export interface Remote {
  /**
   * Returns ids by ref, of exactly these refs or of those that begin with one that ends with `/`.
   */
  list(...refs: string[]): Promise<Refs>
  /** Fetches a commit of a ref, unless it is there, and changes no ref of the checkout. */
  fetch(ref: string, commit: string): Promise<void>
  /**
   * Runs the `pre-push` hook of the checkout for updates, without a push. Returns what the hook said
   * if it refuses, or undefined.
   */
  verify(updates: readonly string[]): Promise<string | undefined>
  /** Updates refs, without a hook. Returns why the server refused, or undefined. */
  push(options: readonly string[], updates: readonly string[]): Promise<string | undefined>
  /** Returns the milliseconds so far in which the server did not answer. */
  outages(): number
}

/** What git says if the connection was lost during an answer. */
const LOST = /RPC failed|hung up| (?:EOF|eof)\b/
/** What curl says of a connection for git; the address before it may contain any word. */
const UNCONNECTED = /^fatal: unable to access '\S*': (.+)$/m
/** A certificate does not become valid soon. As a word of its own, it is no part of the name of a host. */
const UNTRUSTED = /(?<![^\s:])(?:cert(?:ificates?)?(?=[\s:,]|\.?$)|CERT_TRUST_|pinned public key)/i
/** The status of the server, or of a proxy that did not connect. */
const STATUS = /(?:returned error:|tunnel failed, response|Received HTTP code) (\d+)/
/** Statuses of answers after which the same command may succeed soon. */
const TRANSIENT = /^(?:408|429|5\d\d)$/
/** Printed to users who may bypass a rule: the server did not enforce it. */
const BYPASSED = ': you may bypass its rule: '
/** A connection on which nothing has come for 90 seconds is lost. The server lets a fetch wait for 45. */
const SLOWEST_FETCH = ['-c', 'http.lowSpeedTime=90']

interface RemoteOptions {
  /** Returns how long something is tried again, in milliseconds. */
  retryFor(): number
  /** How long something fails before `onOutage` is called, in milliseconds. */
  outageAfter: number
  onOutage: OutageNotice
  signal?: AbortSignal | undefined
}

export function createRemote(
  git: Git,
  url: string,
  { retryFor, outageAfter, onOutage, signal }: RemoteOptions,
): Remote {
  // Another push, perhaps of a landing that was killed, may move the same ref at this moment.
  const isTransient = (result: GitResult, index: number) =>
    isAway(result) || (index < 3 && /failed to update ref|cannot lock ref/.test(result.stdout))

  let outages = 0

  async function retry(args: readonly string[]): Promise<GitResult> {
    const start = performance.now()
    const longest = retryFor()
    for (let index = 0; ; index++) {
      const begun = performance.now()
      const result = await git(args)
      const pause = backoff(index)
      const taken = performance.now() - start + pause
      if (!isAway(result)) onOutage(null)
      if (result.code === 0 || !isTransient(result, index) || taken > longest) return result
      if (isAway(result) && taken > outageAfter) onOutage(reasonOf(result))
      await sleep(pause, signal)
      if (isAway(result)) outages += performance.now() - begun
    }
  }

  async function succeed(args: readonly string[]): Promise<string> {
    const result = await retry(args)
    if (result.code !== 0) throw new LandingEnd('unanswered', describeFailure(url, result))
    return result.stdout
  }

  return {
    outages: () => outages,
    async list(...refs) {
      // A pattern also matches the end of other names.
      const patterns = refs.map((ref) => ref.replace(/\/$/, '/*'))
      const listed = (await succeed([...SLOWEST_FETCH, 'ls-remote', '--quiet', url, ...patterns])).matchAll(
        /^(\w+)\t(.+)$/gm,
      )
      const isAsked = (name: string) =>
        refs.some((ref) => (ref.endsWith('/') ? name.startsWith(ref) : name === ref))
      return new Map([...listed].flatMap(([, id = '', name = '']) => (isAsked(name) ? [[name, id]] : [])))
    },
    async fetch(ref, commit) {
      if ((await git(['cat-file', '-e', `${commit}^{commit}`])).code === 0) return
      await succeed([...SLOWEST_FETCH, 'fetch', '--quiet', '--no-tags', '--no-write-fetch-head', url, ref])
    },
    async verify(updates) {
      const result = await retry(['push', '--porcelain', '--dry-run', '--force', url, ...updates])
      if (isRefusedByHook(result)) {
        const lines = `${result.stdout}\n${result.stderr}`.split('\n')
        return lines.filter((line) => line.trim() && !line.startsWith('error: failed to push')).join('\n')
      }
      if (result.code !== 0) throw new LandingEnd('unanswered', describeFailure(url, result))
      return undefined
    },
    async push(options, updates) {
      const result = await retry(['push', '--porcelain', '--no-verify', ...options, url, ...updates])
      if (result.code === 0) {
        const lines = result.stderr.split('\n').filter((line) => line.includes(BYPASSED))
        for (const line of lines) say(`the server says: ${line.replace(/^remote: /, '').trimEnd()}`)
        return undefined
      }
      // Of an atomic push, all refs but one are refused for the sake of that one.
      const refused = result.stdout.split('\n').filter((line) => line.startsWith('!\t'))
      const reasons = refused.map((line) => line.slice(line.indexOf('(') + 1, line.lastIndexOf(')')))
      const reason = reasons.find((text) => !/^atomic|is atomic/.test(text)) ?? reasons[0]
      if (reason !== undefined) return reason
      // A push whose connection failed has a line that begins with `fatal`.
      if (result.code === 1 && !/^fatal: /m.test(result.stderr)) return reasonOf(result)
      throw new LandingEnd('unanswered', describeFailure(url, result))
    },
  }
}

/** Returns whether a command failed in a way that may be over soon. */
function isAway(result: GitResult): boolean {
  if (result.code === 0 || isRefusedByHook(result)) return false
  const text = textOfGit(result)
  const [, status] = STATUS.exec(text) ?? []
  if (status !== undefined) return TRANSIENT.test(status)
  const [, problem] = UNCONNECTED.exec(text) ?? []
  return problem === undefined ? LOST.test(text) : !UNTRUSTED.test(problem)
}

/** Returns what git says itself. What a server says is not to be searched: it contains names of checks. */
function textOfGit({ stderr }: GitResult): string {
  return stderr
    .split('\n')
    .filter((line) => /^(?:fatal|error): (?!remote error)/.test(line))
    .join('\n')
}

/**
 * Returns whether a push failed after the server had answered and before anything was sent: git
 * names the server on a line of its own once it has an answer for each ref.
 */
function isRefusedByHook({ code, stdout, stderr }: GitResult): boolean {
  return code === 1 && /^error: failed to push some refs/m.test(stderr) && !/^To /m.test(stdout)
}

/** Returns the command that removes refs on the server, for a POSIX shell. */
export function removalOf(refs: readonly string[]): string {
  const quote = (ref: string) => (/^[\w./-]+$/.test(ref) ? ref : `'${ref.replaceAll("'", `'\\''`)}'`)
  return ['git push origin --delete', ...refs.map(quote)].join(' ')
}

function describeFailure(url: string, result: GitResult): string {
  const text = textOfGit(result)
  if (/Authentication failed|could not read Username|error: 401/.test(text))
    return `${url} does not accept the token in COMMIT_STATUS_TOKEN`
  if (/error: 403/.test(text)) return `the token in COMMIT_STATUS_TOKEN may not push to ${url}`
  // Of a repository that was renamed, the server says what it is called.
  const [, renamed] = /^remote: (The repository is called .*)$/m.exec(result.stderr) ?? []
  return renamed ? `${url}: ${renamed.trim()}` : `git failed with ${url}: ${reasonOf(result)}`
}
