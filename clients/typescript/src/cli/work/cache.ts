import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createGit, type Git, type GitResult, reasonOf } from '../git.ts'

/** The commits of one repository, kept between jobs. */
export interface RepositoryCache {
  /**
   * Fetches commits that are missing, and returns when that of a tip was made, in milliseconds since
   * the epoch.
   *
   * @param others tips that are fetched along
   * @param stop gives it up
   * @throws if it cannot be fetched, with the words of git
   */
  bring(tip: CachedTip, others: readonly CachedTip[], stop?: AbortSignal): Promise<number>
  /**
   * Checks a commit out, detached, into a folder with a git directory of its own: nothing that the
   * command writes there reaches this cache or another job.
   */
  checkOut(tip: CachedTip, folder: string): Promise<void>
}

export interface CachedTip {
  branch: string
  sha: string
}

interface CacheOptions {
  folder: string
  /** Address of the repository. */
  url: string
  token: string
  env: NodeJS.ProcessEnv
  signal: AbortSignal
  /** Seconds without a byte after which a connection counts as lost. The server lets a fetch wait for 45. */
  stall: number
}

const TIPS = 'refs/tips/'
/** Commits that one fetch brings. */
const MOST = 200
/** Longest time of one command of git, in milliseconds. */
const TIMEOUT = 1_800_000
const SHA1_LENGTH = 40
/** Errors of the connection, the server, the disk, or a path in the commit: the cache is not damaged. */
const UNDAMAGED =
  /unable to access|RPC failed|remote error|took too long|no space left|quota exceeded|name too long|invalid path|would be overwritten/i

/** With no other configuration, nothing that a commit contains makes git run a program, or ask another server. */
const SETTINGS = {
  'init.templateDir': '',
  'protocol.allow': 'never',
  'protocol.http.allow': 'always',
  'protocol.https.allow': 'always',
  'advice.detachedHead': 'false',
}

/** Returns an environment in which git reads no configuration of the system or the user. */
function isolatedEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(
    ([name]) => !/^GIT_(?!SSL_)/.test(name) && !['COMMIT_STATUS_TOKEN', 'XDG_CONFIG_HOME'].includes(name),
  )
  const settings = Object.entries(SETTINGS).flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, key],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ])
  return {
    ...Object.fromEntries(kept),
    ...Object.fromEntries(settings),
    GIT_CONFIG_COUNT: String(Object.keys(SETTINGS).length),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    HOME: '/nonexistent',
  }
}

/** Opens the cache of a repository; it is created with the first commit. */
export function openCache({ folder, url, token, env, signal, stall }: CacheOptions): RepositoryCache {
  const isolated = isolatedEnvironment(env)
  const local = createGit(isolated, { signal, timeout: () => TIMEOUT })
  /** Dates of the tips that are in the cache, by id. */
  let dates: Map<string, number> | undefined
  let last: Promise<unknown> = Promise.resolve()

  /** Runs one task after the other: what git tidies up must not be copied meanwhile. */
  function inOrder<T>(task: () => Promise<T>): Promise<T> {
    const result = last.then(task)
    last = result.catch(() => {})
    return result
  }

  async function readDates(): Promise<Map<string, number>> {
    const format = '--format=%(objectname) %(committerdate:unix)'
    const { stdout } = await demand(local, ['--git-dir', folder, 'for-each-ref', format, TIPS])
    const rows = stdout.split('\n').map((line) => line.split(' '))
    return new Map(rows.map(([sha = '', seconds]) => [sha, Number(seconds) * 1_000]))
  }

  async function create(path: string, sha: string): Promise<void> {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    await demand(local, ['init', '--quiet', '--bare', path], formatOf(sha))
  }

  async function fetchTips(path: string, tips: readonly CachedTip[], stop: AbortSignal): Promise<GitResult> {
    const remote = createGit(isolated, { url, token, signal: stop, timeout: () => TIMEOUT })
    const refs = tips.map(({ branch, sha }) => `+${sha}:${refOf(branch)}`)
    const options = ['--quiet', '--no-tags', '--no-write-fetch-head', '--no-auto-maintenance']
    return remote(['-c', `http.lowSpeedTime=${stall}`, '--git-dir', path, 'fetch', ...options, url, ...refs])
  }

  /** @throws if it cannot be fetched, with the words of git */
  async function fetchTip(path: string, tip: CachedTip, stop: AbortSignal): Promise<void> {
    const fetched = await fetchTips(path, [tip], stop)
    if (fetched.code !== 0) throw failureOf(fetched)
  }

  /**
   * Runs a task, and once more in a new cache if it fails for a reason of this one and the commit can be fetched:
   * a power cut, or a git that was killed, may leave empty objects or locks, with which every later task fails too.
   */
  async function heal<T>(tip: CachedTip, stop: AbortSignal, task: () => Promise<T>): Promise<T> {
    try {
      return await task()
    } catch (error) {
      stop.throwIfAborted()
      if (error instanceof Error && UNDAMAGED.test(`${error.message}\n${error.cause}`)) throw error
      const fresh = `${folder}.new`
      try {
        removeFolder(fresh)
        await create(fresh, tip.sha)
        await fetchTip(fresh, tip, stop)
        removeFolder(folder)
        renameSync(fresh, folder)
      } catch {
        removeFolder(fresh)
        throw error
      }
      dates = undefined
      return task()
    }
  }

  return {
    bring: (tip, others, stop = signal) =>
      inOrder(() =>
        heal(tip, stop, async () => {
          if (!existsSync(join(folder, 'HEAD'))) await create(folder, tip.sha)
          dates ??= await readDates()
          const known = dates.get(tip.sha)
          if (known !== undefined) return known
          const isMissing = ({ sha, branch }: CachedTip) => branch !== tip.branch && !dates?.has(sha)
          const missing = others.filter(isMissing).slice(0, MOST - 1)
          // One that has moved away may be there no more.
          const hasAll = missing.length > 0 && (await fetchTips(folder, [tip, ...missing], stop)).code === 0
          if (!hasAll) await fetchTip(folder, tip, stop)
          dates = await readDates()
          const date = dates.get(tip.sha)
          if (date === undefined) throw new Error(`${tip.sha} is not a commit`)
          return date
        }),
      ),
    checkOut: (tip, target) =>
      inOrder(async () => {
        await heal(tip, signal, async () => {
          removeFolder(target)
          const copy = ['--quiet', '--no-hardlinks', '--no-checkout', '--no-tags', folder, target]
          // It takes no format from a repository without branches.
          await demand(local, ['-c', 'protocol.file.allow=always', 'clone', ...copy], formatOf(tip.sha))
          await demand(local, ['-C', target, 'remote', 'set-url', 'origin', url])
          await demand(local, ['-C', target, 'checkout', '--quiet', '--detach', tip.sha])
        })
        const tidy = ['-c', 'gc.auto=2000', '-c', 'gc.autoPackLimit=20', '-c', 'gc.autoDetach=false']
        await local(['--git-dir', folder, ...tidy, 'gc', '--auto', '--quiet'])
      }),
  }
}

function removeFolder(path: string): void {
  rmSync(path, { recursive: true, force: true, maxRetries: 3 })
}

/** One ref for each branch, so that the next fetch is small. Names of branches may conflict over time. */
function refOf(branch: string): string {
  return TIPS + createHash('sha256').update(branch).digest('hex').slice(0, 32)
}

function formatOf(sha: string): Record<string, string> {
  return { GIT_DEFAULT_HASH: sha.length === SHA1_LENGTH ? 'sha1' : 'sha256' }
}

/** @throws if git fails */
async function demand(
  git: Git,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<GitResult> {
  const result = await git(args, { env })
  if (result.code !== 0) throw failureOf(result)
  return result
}

/** Returns an error with the words of git; its cause is all that git has written. */
function failureOf(result: GitResult): Error {
  return new Error(reasonOf(result) || `git ended with ${result.code}`, { cause: result.stderr })
}
