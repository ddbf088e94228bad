import type { FairQueue } from '../util/fair-queue.ts'
import { SharedRuns } from '../util/shared-runs.ts'
import { gitDirOf, type RepositoryFolder } from './git-dir.ts'
import { type Ref, type Refs, readRef, readRefs } from './refs-reader.ts'
import { isCurrent, type RefsState, readRefsState } from './refs-state.ts'
import { GitTimeout } from './run-git.ts'

export type { Ref, Refs }

const LIMITS = { count: 20_000, timeout: 10_000 }
/** Maximum number of refs in memory. The least recently used lists are dropped. */
const MAX_REFS = 200_000
/** Milliseconds for which a list is cached: the state covers no refs behind symbolic links. */
const MAX_AGE = 60_000

interface List {
  readonly state: RefsState
  readonly readAt: number
  /** The refs, or the error if git took too long. */
  readonly outcome: Refs | GitTimeout
}

/** Lists the branches and tags of repositories. A list is cached until a ref changes. */
export class RefLists {
  readonly #limits: typeof LIMITS
  readonly #queue: FairQueue
  readonly #runs = new SharedRuns<Refs>()
  /** By path, the least recently used first. */
  readonly #lists = new Map<string, List>()
  #size = 0

  /** @param queue slots for git processes */
  constructor(queue: FairQueue, limits: Partial<typeof LIMITS> = {}) {
    this.#queue = queue
    this.#limits = { ...LIMITS, ...limits }
  }

  /**
   * Returns the branches and tags, the newest first, and HEAD. A push takes effect at once.
   *
   * @param client address whose share of the git processes is used
   * @param signal stops waiting, and git if nobody else waits
   * @throws RepositoryUnavailable if the repository's files cannot be opened or its configuration is refused; QueueFull;
   * the signal's reason
   */
  list(repository: RepositoryFolder, client: string, signal?: AbortSignal): Promise<Refs> {
    const { path } = repository
    return this.#runs.joinNext(
      path,
      async (signal) => {
        await gitDirOf(repository)
        return (
          (await this.#find(path)) ??
          (await this.#queue.run(client, () => this.#read(repository, signal), signal))
        )
      },
      signal,
    )
  }

  /**
   * Finds a branch, or else a tag, of exactly this name. `refs/heads/x` and `refs/tags/x` are also accepted, unless a branch
   * or tag has that name itself.
   *
   * @param refs the answer of `list`
   * @param name anything a visitor may send; other arguments and errors as `list`
   */
  async find(
    repository: RepositoryFolder,
    refs: Refs,
    name: string,
    client: string,
    signal?: AbortSignal,
  ): Promise<Ref | null> {
    const named = (list: readonly Ref[], prefix: string) => list.find((ref) => prefix + ref.name === name)
    const listed =
      named(refs.branches, '') ??
      named(refs.tags, '') ??
      named(refs.branches, 'refs/heads/') ??
      named(refs.tags, 'refs/tags/')
    if (listed || !refs.more) return listed ?? null
    const gitDir = await gitDirOf(repository)
    const target = { path: repository.path, gitDir }
    return this.#queue.run(client, () => readRef(target, name, this.#limits.timeout, signal), signal)
  }

  async #find(path: string): Promise<Refs | undefined> {
    const list = this.#lists.get(path)
    if (list === undefined || performance.now() - list.readAt > MAX_AGE) return undefined
    if (!(await isCurrent(list.state))) return undefined
    if (this.#lists.get(path) === list) this.#cache(path, list)
    if (list.outcome instanceof GitTimeout) throw list.outcome
    return list.outcome
  }

  async #read(repository: RepositoryFolder, signal: AbortSignal): Promise<Refs> {
    const { path } = repository
    const state = await readRefsState(path)
    // After the state was read, because git may run on a copy of HEAD that is made here.
    const target = { path, gitDir: await gitDirOf(repository) }
    const readAt = performance.now()
    const outcome = await readRefs(target, this.#limits, signal).catch((error: unknown) => {
      // The error is cached too. Otherwise requests for this repository would occupy all slots permanently.
      if (error instanceof GitTimeout) return error
      throw error
    })
    this.#cache(path, { state, readAt, outcome })
    if (outcome instanceof GitTimeout) throw outcome
    return outcome
  }

  #cache(path: string, list: List): void {
    this.#drop(path)
    this.#lists.set(path, list)
    this.#size += sizeOf(list)
    for (const oldest of this.#lists.keys()) {
      if (this.#size <= MAX_REFS || oldest === path) break
      this.#drop(oldest)
    }
  }

  #drop(path: string): void {
    const list = this.#lists.get(path)
    if (list === undefined) return
    this.#size -= sizeOf(list)
    this.#lists.delete(path)
  }
}

function sizeOf({ state, outcome }: List): number {
  // An empty list takes some memory too, and so do the paths by which changes are noticed.
  return (
    10 +
    state.paths.length +
    (outcome instanceof GitTimeout ? 0 : outcome.branches.length + outcome.tags.length)
  )
}
