import { LookupQueue, type LookupRepository } from './lookup-queue.ts'
import { ReaderPool } from './reader-pool.ts'
import { commitIdLength, type ObjectFormat, RepositoryUnavailable } from './repository.ts'

/** Says which commits repositories on this machine hold. */
export interface CommitLookup {
  /**
   * Whether the repository holds the object `sha` and it is a commit, reachable or not. `false` for any other type of
   * object, and for whatever is not a full lower-case hex id of the repository's format: that never reaches git.
   *
   * A push counts at once; objects that a push under way has not handed over yet do not. An object that a gc removed may
   * be found for `maxAge` more. Replacement refs change nothing.
   *
   * @throws RepositoryUnavailable when the repository's files cannot be opened or its configuration is refused, when
   *   git does not answer within `timeout` or ends twice before it answers, or after `close`
   */
  has(repository: LookupRepository & { objectFormat: ObjectFormat }, sha: string): Promise<boolean>
  /** How many git processes there are, those about to end included; never more than `maxProcesses`. */
  readonly size: number
  /** Answers what was asked before, ends all processes and resolves when they are gone. */
  close(): Promise<void>
}

/** Limits of a commit look-up. Times are milliseconds. */
export interface CommitLookupOptions {
  /** Most git processes at a time, 64 by default. With more repositories in use than that, they take turns. */
  maxProcesses?: number
  /** How long one process serves, 60,000 by default. */
  maxAge?: number
  /** How long one answer may take, waiting included, 10,000 by default; noticed up to a quarter later. */
  timeout?: number
}

/** Opens a commit look-up: at most one long-lived git process a repository, started when first needed. */
export function openCommitLookup(options: CommitLookupOptions = {}): CommitLookup {
  return new ProcessLookup(options)
}

const FULL_ID = /^[0-9a-f]+$/

class ProcessLookup implements CommitLookup {
  readonly #pool: ReaderPool
  /** The queues in use: of repositories that have a process or an open look-up. */
  readonly #queues = new Map<number, LookupQueue>()
  readonly #sweep: NodeJS.Timeout
  #closed: Promise<void> | undefined
  #whenIdle: (() => void) | undefined

  constructor({ maxProcesses = 64, maxAge = 60_000, timeout = 10_000 }: CommitLookupOptions) {
    this.#pool = new ReaderPool({ maxProcesses, maxAge, timeout }, (id) => this.#forget(id))
    // One timer for all: a timer for each look-up would cost more than the look-up.
    this.#sweep = setInterval(() => {
      const deadline = performance.now() - timeout
      for (const queue of this.#queues.values()) queue.expire(deadline)
    }, timeout / 4).unref()
  }

  get size(): number {
    return this.#pool.size
  }

  has(repository: LookupRepository & { objectFormat: ObjectFormat }, sha: string): Promise<boolean> {
    if (this.#closed !== undefined) return Promise.reject(new RepositoryUnavailable('the look-up is closed'))
    if (sha.length !== commitIdLength(repository.objectFormat) || !FULL_ID.test(sha))
      return Promise.resolve(false)
    let queue = this.#queues.get(repository.id)
    if (queue === undefined) {
      queue = new LookupQueue(repository, this.#pool, ({ id }) => this.#forget(id))
      this.#queues.set(repository.id, queue)
    }
    return queue.ask(sha)
  }

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
