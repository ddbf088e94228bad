import { isFullId, type ObjectFormat } from '../../domain/commit-id.ts'
import type { RepositoryAccess } from '../../store/access/access.ts'
import type { Store } from '../../store/store.ts'
import { RepositoryUnavailable } from '../repository.ts'
import { LookupQueue } from './lookup-queue.ts'
import { type LookupRepository, ReaderPool } from './reader-pool.ts'

/** Limits of a commit lookup. Times are milliseconds. */
export interface CommitLookupOptions {
  /** Maximum number of git processes, 64 by default. If more repositories are in use, they take turns. */
  maxProcesses?: number
  /** Lifetime of one process, 60,000 by default. */
  maxAge?: number
  /** Time for one answer including waiting, 10,000 by default; enforced up to a quarter later. */
  timeout?: number
}

/** Checks which commits local repositories hold, with at most one long-lived git process for each. It starts when first needed. */
export class CommitLookup {
  readonly #pool: ReaderPool
  /** Queues of repositories that have a process or a pending lookup. */
  readonly #queues = new Map<number, LookupQueue>()
  readonly #sweep: NodeJS.Timeout
  #closed: Promise<void> | undefined
  #whenIdle: (() => void) | undefined

  constructor({ maxProcesses = 64, maxAge = 60_000, timeout = 10_000 }: CommitLookupOptions = {}) {
    this.#pool = new ReaderPool({ maxProcesses, maxAge, timeout }, (id) => this.#forget(id))
    // One timer for all lookups, because a timer for each would cost more than the lookup.
    this.#sweep = setInterval(() => {
      const deadline = performance.now() - timeout
      for (const queue of this.#queues.values()) queue.expire(deadline)
    }, timeout / 4).unref()
  }

  /** Number of git processes, including those that are ending; at most `maxProcesses`. */
  get size(): number {
    return this.#pool.size
  }

  /**
   * Returns whether the repository holds the object `sha` and the object is a commit, reachable or not. Returns `false` for
   * other types of objects and for anything but a full lower-case hex id of the repository's format, without asking git.
   *
   * Objects are found as soon as their push is accepted, not before. An object that a garbage collection removed may still be
   * found for `maxAge`. Replacement refs are ignored.
   *
   * @throws RepositoryUnavailable if the repository's files cannot be opened, if objects were lost (`checkComplete`), if git
   *   does not answer within `timeout` or ends twice before it answers, or after `close`
   */
  has(repository: LookupRepository & { objectFormat: ObjectFormat }, sha: string): Promise<boolean> {
    if (this.#closed !== undefined) return Promise.reject(new RepositoryUnavailable('the lookup is closed'))
    if (!isFullId(sha, repository.objectFormat)) return Promise.resolve(false)
    let queue = this.#queues.get(repository.id)
    if (queue === undefined) {
      queue = new LookupQueue(repository, this.#pool, () => this.#forget(repository.id))
      this.#queues.set(repository.id, queue)
    }
    return queue.ask(sha)
  }

  /** Completes pending lookups and ends all processes. Resolves when they have ended. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#whenIdle = resolve
    this.#reportIdle()
    await promise
    clearInterval(this.#sweep)
    await this.#pool.close()
  }

  #forget(id: number): void {
    if (this.#queues.get(id)?.idle && !this.#pool.serves(id)) this.#queues.delete(id)
    this.#reportIdle()
  }

  #reportIdle(): void {
    if (this.#whenIdle === undefined) return
    for (const queue of this.#queues.values()) if (!queue.idle) return
    this.#whenIdle()
  }
}

/**
 * Returns whether the commit has statuses or git has it. A commit with statuses stays known after git's garbage collection.
 *
 * @throws RepositoryUnavailable if the repository's files cannot be opened
 */
export async function commitExists(
  statuses: Store['statuses'],
  lookup: CommitLookup,
  repository: RepositoryAccess,
  sha: string,
): Promise<boolean> {
  return (await statuses.any(repository.id, sha)) || lookup.has(repository, sha)
}
