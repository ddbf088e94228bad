import type { FairQueue } from '../util/fair-queue.ts'
import { SharedRuns } from '../util/shared-runs.ts'
import { gitDirOf, type RepositoryFolder } from './git-dir.ts'
import { type Head, isUnchanged, readHead } from './head.ts'
import { type Commit, type LogLimits, readLog } from './log-reader.ts'
import { type GitTarget, GitTimeout } from './run-git.ts'

export type { Commit }

const LIMITS: LogLimits = { count: 30, timeout: 10_000 }
/** Maximum number of cached lists. The least recently used one is dropped. */
const MAX_LISTS = 1_000
/** Milliseconds for which a list is cached. Grafts and `shallow` can change it too, but rarely do. */
const MAX_AGE = 60_000
/** Maximum number of commits that a page starts from. */
export const MAX_STARTS = 40

/** A page of a history. */
export interface History {
  commits: readonly Commit[]
  /**
   * What the next page comes after: the last commit of this page, then the commits on other lines of history that come
   * next. null if this is the last page.
   */
  after: readonly string[] | null
}

interface List {
  /** undefined if the list cannot change. */
  readonly head: Head | undefined
  readonly readAt: number
  /** The commits, or the error if git took too long. */
  readonly outcome: readonly Commit[] | GitTimeout
}

/** Lists commits of repositories for public pages. Lists are cached; each is read once for all who ask for it. */
export class CommitLog {
  readonly #limits: LogLimits
  readonly #queue: FairQueue
  readonly #runs = new SharedRuns<readonly Commit[]>()
  /** By path and start, the least recently used first. */
  readonly #lists = new Map<string, List>()

  /** @param queue slots for git processes */
  constructor(queue: FairQueue, limits: Partial<LogLimits> = {}) {
    this.#queue = queue
    this.#limits = { ...LIMITS, ...limits }
  }

  /**
   * Returns at most `count` of the newest commits of the branch that HEAD names, or none if the branch has no commits. A push
   * takes effect at once.
   *
   * @param client address whose share of the processes is used
   * @param signal stops waiting, and git if nobody else waits
   * @throws RepositoryUnavailable if the repository's files cannot be opened or its configuration is refused; QueueFull;
   * the signal's reason
   */
  newest(repository: RepositoryFolder, client: string, signal?: AbortSignal): Promise<readonly Commit[]> {
    const { path } = repository
    const read = async (signal: AbortSignal) => {
      await gitDirOf(repository)
      const known = await this.#find(path)
      return known ?? this.#queue.run(client, () => this.#readNewest(repository, signal), signal)
    }
    return this.#runs.joinNext(path, read, signal)
  }

  /**
   * Returns a page of the history of a commit, in the order of `git log`. Its cost does not depend on how many pages come
   * before it, because git starts at the commits that the previous page ended with, not at the newest one.
   *
   * Where lines of history run in parallel, the next page starts from the next commit of each. If there are more than
   * `MAX_STARTS`, commits that only the further ones lead to are left out.
   *
   * @param from the first commit, or `after` of the previous page. All are full ids of commits in the repository
   * @param signal and other arguments and errors as `newest`
   */
  async history(
    repository: RepositoryFolder,
    from: { first: string } | { after: readonly string[] },
    client: string,
    signal?: AbortSignal,
  ): Promise<History> {
    const starts = 'first' in from ? [from.first] : from.after.slice(0, MAX_STARTS)
    const shown = 'first' in from ? undefined : starts[0]
    const listed = await this.#listFrom(repository, starts, client, signal)
    const commits = listed.filter(({ sha }) => sha !== shown).slice(0, this.#limits.count)
    const last = commits.at(-1)
    const seen = new Set([...commits.map(({ sha }) => sha), shown])
    const reached = [
      ...starts,
      ...listed.filter(({ sha }) => seen.has(sha)).flatMap(({ parents }) => parents),
    ]
    const others = new Set(reached.filter((sha) => !seen.has(sha)))
    if (last === undefined || others.size === 0) return { commits, after: null }
    for (const parent of last.parents) others.delete(parent)
    return { commits, after: [last.sha, ...others].slice(0, MAX_STARTS) }
  }

  #listFrom(
    repository: RepositoryFolder,
    starts: readonly string[],
    client: string,
    signal: AbortSignal | undefined,
  ): Promise<readonly Commit[]> {
    const key = [repository.path, ...starts].join('\0')
    const read = async (signal: AbortSignal) => {
      const gitDir = await gitDirOf(repository)
      const known = await this.#find(key)
      if (known !== undefined) return known
      const target = { path: repository.path, gitDir }
      return this.#queue.run(client, () => this.#read(key, target, starts, undefined, signal), signal)
    }
    return this.#runs.join(key, read, signal)
  }

  async #find(key: string): Promise<readonly Commit[] | undefined> {
    const list = this.#lists.get(key)
    if (list === undefined || performance.now() - list.readAt > MAX_AGE) return undefined
    if (list.head !== undefined && !(await isUnchanged(list.head))) return undefined
    if (this.#lists.get(key) === list) this.#cache(key, list)
    if (list.outcome instanceof GitTimeout) throw list.outcome
    return list.outcome
  }

  async #readNewest(repository: RepositoryFolder, signal: AbortSignal): Promise<readonly Commit[]> {
    const { path } = repository
    const head = await readHead(path)
    // After `head` was read, because git may run on a copy of HEAD that is made here.
    const gitDir = await gitDirOf(repository)
    return this.#read(path, { path, gitDir }, 'HEAD', head, signal)
  }

  async #read(
    key: string,
    target: GitTarget,
    starts: 'HEAD' | readonly string[],
    head: Head | undefined,
    signal: AbortSignal,
  ): Promise<readonly Commit[]> {
    const readAt = performance.now()
    // One more for the commit that the previous page has shown.
    const limits = { ...this.#limits, count: this.#limits.count + (starts === 'HEAD' ? 0 : 1) }
    const outcome = await readLog(target, starts, limits, signal).catch((error: unknown) => {
      // The error is cached too. Otherwise requests for this repository would occupy all slots permanently.
      if (error instanceof GitTimeout) return error
      throw error
    })
    // If HEAD has changed meanwhile, the list may be older or newer than `head`.
    if (head === undefined || isSame(head, await readHead(target.path)))
      this.#cache(key, { head, readAt, outcome })
    if (outcome instanceof GitTimeout) throw outcome
    return outcome
  }

  #cache(key: string, list: List): void {
    this.#lists.delete(key)
    this.#lists.set(key, list)
    const [oldest] = this.#lists.keys()
    if (oldest !== undefined && this.#lists.size > MAX_LISTS) this.#lists.delete(oldest)
  }
}

function isSame(one: Head, other: Head): boolean {
  return one.state === other.state && one.files.join('\0') === other.files.join('\0')
}
