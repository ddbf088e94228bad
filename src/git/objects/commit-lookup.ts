import { LRUCache } from 'lru-cache'
import { isFullId } from '../../domain/commit-id.ts'
import { limitConcurrency } from '../../schedule/limit-concurrency.ts'
import { entriesUpTo } from '../../util/memory.ts'
import { RepositoryUnavailable } from '../errors.ts'
import { type CreateReader, LookupQueue, type LookupRepository } from './lookup-queue.ts'
import { type Answer, ObjectReader } from './object-reader.ts'

/** Limits of a commit lookup. Times are milliseconds. */
export interface CommitLookupOptions {
  /**
   * Maximum number of git processes, 64 by default. If more repositories are in use, they take
   * turns.
   */
  maxProcesses?: number
  /** Lifetime of one process, 60,000 by default. */
  maxAge?: number
  /** Time for one answer including waiting, 10,000 by default; enforced up to a quarter later. */
  timeout?: number
}

/** Repositories that need no other check while their packs do not change. */
const COMPLETE_REPOSITORIES = 10_000

/**
 * Checks which commits local repositories hold, with one long-lived git process for each repository
 * in use.
 *
 * At most `maxProcesses` exist, including those that are ending. If another one is needed, the
 * least recently used one is ended: it still answers its questions, and then the next one starts.
 * So every repository gets its turn.
 */
export class CommitLookup {
  /** By id of the repository. They expire: git finds objects in packs that were removed. */
  readonly #readers: LRUCache<number, ObjectReader>
  /** Queues of repositories that have a process or a pending lookup. */
  readonly #queues = new Map<number, LookupQueue>()
  /** See `LookupQueue`. Kept here, since a queue ends when nobody asks. */
  readonly #completeIn = new LRUCache<number, string>(entriesUpTo(COMPLETE_REPOSITORIES))
  readonly #processes = new Set<Promise<void>>()
  readonly #createReader: CreateReader
  readonly #sweep: NodeJS.Timeout
  #closed: Promise<void> | undefined

  constructor({ maxProcesses = 64, maxAge = 60_000, timeout = 10_000 }: CommitLookupOptions = {}) {
    this.#readers = new LRUCache({
      max: maxProcesses,
      ttl: maxAge,
      ttlAutopurge: true,
      dispose: (reader) => reader.end(),
    })
    const inTurn = limitConcurrency(maxProcesses)
    const slots = (run: () => Promise<void>) =>
      inTurn(() => {
        const process = run().finally(() => this.#processes.delete(process))
        this.#processes.add(process)
        return process
      })
    this.#createReader = (repository, packs) => new ObjectReader(repository, packs, slots, timeout)
    let swept = performance.now()
    // One timer for all lookups, because a timer for each would cost more than the lookup.
    this.#sweep = setInterval(() => {
      const now = performance.now()
      const isLate = now - swept > timeout / 2
      swept = now
      // The event loop was blocked: first what has come meanwhile is read.
      if (isLate) return
      for (const [id, queue] of this.#queues) {
        queue.expire(now - timeout)
        if (queue.isIdle && !this.#readers.has(id)) this.#queues.delete(id)
      }
    }, timeout / 4).unref()
  }

  /** Number of git processes, including those that are ending; at most `maxProcesses`. */
  get size(): number {
    return this.#processes.size
  }

  /**
   * Returns whether the repository holds the object `sha` and the object is a commit, reachable or
   * not. Returns `false` for other types of objects and, without asking git, for anything but a
   * full lower-case hex id of the repository's format.
   *
   * Objects are found as soon as their push is accepted, not before. An object that a garbage
   * collection removed may still be found for `maxAge`. Replacement refs are ignored.
   *
   * @throws RepositoryUnavailable if the repository's files cannot be opened, if objects were lost
   * (`checkComplete`), if git does not answer within `timeout` or ends twice at the object, or
   * after `close`
   */
  async has(repository: LookupRepository, sha: string): Promise<boolean> {
    return (await this.typeOf(repository, sha)) === 'commit'
  }

  /**
   * Returns the type of an object; null if there is none. Throws as `has`, and does not ask git when
   * that does not.
   */
  async typeOf(repository: LookupRepository, sha: string): Promise<string | null> {
    if (!isFullId(sha, repository.objectFormat)) return null
    const { id, type } = await this.#ask(repository, sha)
    return id === sha && type !== 'missing' ? type : null
  }

  /**
   * Returns the commit of an annotated tag, also of a tag of tags; null if the id is of something else.
   * Throws as `has`.
   */
  async commitOfTag(repository: LookupRepository, tag: string): Promise<string | null> {
    if ((await this.typeOf(repository, tag)) !== 'tag') return null
    const { id, type } = await this.#ask(repository, `${tag}^{commit}`)
    return type === 'commit' ? id : null
  }

  #ask(repository: LookupRepository, name: string): Promise<Answer> {
    if (this.#closed !== undefined) return Promise.reject(new RepositoryUnavailable('the lookup is closed'))
    let queue = this.#queues.get(repository.id)
    if (queue === undefined) {
      queue = new LookupQueue(repository, this.#readers, this.#createReader, this.#completeIn)
      this.#queues.set(repository.id, queue)
    }
    return queue.ask(name)
  }

  /** Completes pending lookups and ends all processes. Resolves when they have ended. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    await Promise.allSettled([...this.#queues.values()].flatMap(({ pending }) => pending))
    clearInterval(this.#sweep)
    this.#readers.clear()
    await Promise.all(this.#processes)
  }
}
