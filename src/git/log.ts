import { FairQueue, type FairQueueLimits } from '../util/fair-queue.ts'
import { gitDirOf, type RepositoryFolder } from './git-dir.ts'
import { type Head, isUnchanged, readHead } from './head.ts'
import { type Commit, type LogLimits, LogTimeout, readLog } from './log-reader.ts'

export type { Commit }

/** For git processes. */
const QUEUE: FairQueueLimits = {
  places: 4,
  placesPerClient: 2,
  waiting: 1_000,
  waitingPerClient: 250,
  timeout: 10_000,
}
const LIMITS: LogLimits = { count: 30, timeout: 10_000 }
/** Repositories whose lists are kept; the least recently used goes. */
const MAX_LISTS = 1_000
/** Milliseconds for which a list is kept: what else than refs decides (grafts, a shallow clone) is seldom changed. */
const MAX_AGE = 60_000

interface List {
  readonly head: Head
  readonly readAt: number
  /** The commits, or why there are none. */
  readonly outcome: readonly Commit[] | LogTimeout
}

/**
 * The newest commits of repositories, for pages that anybody may ask for as often as they like.
 *
 * A list is kept for as long as `HEAD` leads to the same commit. Only a few git processes run at a time, shared fairly
 * between clients.
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
   * The newest commits of the branch that HEAD names, at most `count`; none where nothing has been pushed to it yet. A
   * push counts at once.
   *
   * @param client whose share of the processes is used
   * @param signal gives up and ends the process
   * @throws RepositoryUnavailable when the repository's files cannot be opened or its configuration is refused;
   * QueueFull; the signal's reason
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
    if (this.#lists.get(path) === list) this.#keep(path, list)
    if (list.outcome instanceof LogTimeout) throw list.outcome
    return list.outcome
  }

  async #read(repository: RepositoryFolder, signal: AbortSignal | undefined): Promise<readonly Commit[]> {
    const { path } = repository
    const head = await readHead(path)
    // After `head`: what git reads of an imported repository may be a copy of HEAD, made here.
    const gitDir = await gitDirOf(repository)
    const readAt = performance.now()
    const outcome = await readLog({ path, gitDir }, this.#limits, signal).catch((error: unknown) => {
      // Not to be tried again for each request, or pages of that repository would take all places all the time.
      if (error instanceof LogTimeout) return error
      throw error
    })
    // What was pushed meanwhile may be listed or not.
    if (isSame(head, await readHead(path))) this.#keep(path, { head, readAt, outcome })
    if (outcome instanceof LogTimeout) throw outcome
    return outcome
  }

  #keep(path: string, list: List): void {
    this.#lists.delete(path)
    this.#lists.set(path, list)
    const [oldest] = this.#lists.keys()
    if (oldest !== undefined && this.#lists.size > MAX_LISTS) this.#lists.delete(oldest)
  }
}

function isSame(one: Head, other: Head): boolean {
  return one.state === other.state && one.files.join('\0') === other.files.join('\0')
}
