import { FairQueue, type FairQueueLimits } from '../util/fair-queue.ts'
import { gitDirOf, type RepositoryFolder } from './git-dir.ts'
import { type Head, isUnchanged, readHead } from './head.ts'
import { type Commit, type LogLimits, LogTimeout, readLog } from './log-reader.ts'

export type { Commit }

/** Limits for git processes. */
const QUEUE: FairQueueLimits = {
  places: 4,
  placesPerClient: 2,
  waiting: 1_000,
  waitingPerClient: 250,
  timeout: 10_000,
}
const LIMITS: LogLimits = { count: 30, timeout: 10_000 }
/** Maximum number of cached lists. The least recently used one is dropped. */
const MAX_LISTS = 1_000
/** Milliseconds for which a list is cached. Grafts and `shallow` can change it too, but rarely do. */
const MAX_AGE = 60_000

interface List {
  readonly head: Head
  readonly readAt: number
  /** The commits, or the error if git took too long. */
  readonly outcome: readonly Commit[] | LogTimeout
}

/**
 * Lists the newest commits of repositories for public pages.
 *
 * A list is cached while `HEAD` is the same commit. A few git processes run at a time, shared fairly between clients.
 */
export class CommitLog {
  readonly #limits: LogLimits
  readonly #queue = new FairQueue(QUEUE)
  /** By path, the least recently used first. */
  readonly #lists = new Map<string, List>()

  constructor(limits: Partial<LogLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits }
  }

  /**
   * Returns at most `count` of the newest commits of the branch that HEAD names, or none if the branch has no commits. A push
   * takes effect at once.
   *
   * @param client address whose share of the processes is used
   * @param signal stops waiting and kills the process
   * @throws RepositoryUnavailable if the repository's files cannot be opened or its configuration is refused; QueueFull;
   * the signal's reason
   */
  async newest(
    repository: RepositoryFolder,
    client: string,
    signal?: AbortSignal,
  ): Promise<readonly Commit[]> {
    const { path } = repository
    await gitDirOf(repository)
    const known = await this.#find(path)
    if (known !== undefined) return known
    const read = async () => (await this.#find(path)) ?? this.#read(repository, signal)
    return this.#queue.run(client, read, signal)
  }

  async #find(path: string): Promise<readonly Commit[] | undefined> {
    const list = this.#lists.get(path)
    if (list === undefined || performance.now() - list.readAt > MAX_AGE) return undefined
    if (!(await isUnchanged(list.head))) return undefined
    if (this.#lists.get(path) === list) this.#cache(path, list)
    if (list.outcome instanceof LogTimeout) throw list.outcome
    return list.outcome
  }

  async #read(repository: RepositoryFolder, signal: AbortSignal | undefined): Promise<readonly Commit[]> {
    const { path } = repository
    const head = await readHead(path)
    // After `head` was read, because git may run on a copy of HEAD that is made here.
    const gitDir = await gitDirOf(repository)
    const readAt = performance.now()
    const outcome = await readLog({ path, gitDir }, this.#limits, signal).catch((error: unknown) => {
      // The error is cached too. Otherwise requests for this repository would occupy all places permanently.
      if (error instanceof LogTimeout) return error
      throw error
    })
    // If HEAD has changed meanwhile, the list may be older or newer than `head`.
    if (isSame(head, await readHead(path))) this.#cache(path, { head, readAt, outcome })
    if (outcome instanceof LogTimeout) throw outcome
    return outcome
  }

  #cache(path: string, list: List): void {
    this.#lists.delete(path)
    this.#lists.set(path, list)
    const [oldest] = this.#lists.keys()
    if (oldest !== undefined && this.#lists.size > MAX_LISTS) this.#lists.delete(oldest)
  }
}

function isSame(one: Head, other: Head): boolean {
  return one.state === other.state && one.files.join('\0') === other.files.join('\0')
}
