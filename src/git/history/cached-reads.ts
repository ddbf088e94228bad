import { FairQueue, type QueueClient } from '../../schedule/fair-queue.ts'
import { type RunClient, SharedRuns } from '../../schedule/shared-runs.ts'
import { GitTimeout } from '../errors.ts'
import { FileCache } from '../file-cache.ts'
import type { FilesState } from '../file-state.ts'
import { type OpenedRepository, openRepository, type RepositoryFiles } from '../opened-repository.ts'

/** How a value is read. */
interface Reading<Value> {
  /** Returns the state of the files that the value depends on; without it, no change matters. */
  state?: () => Promise<FilesState>
  read(repository: OpenedRepository, signal: AbortSignal): Promise<Value>
}

/** The value, or the error if git took too long: repeated at once, it would occupy all slots. */
type Outcome<Value> = Value | GitTimeout

/** Milliseconds. Grafts, `shallow` and refs behind links change a value too, though rarely. */
export const MAX_AGE = 60_000

/** Returns slots for the git processes of pages: a few at a time, shared fairly between clients. */
export function createGitQueue(slots = 4): FairQueue {
  return new FairQueue({
    slots,
    slotsPerClient: Math.ceil(slots / 2),
  })
}

/**
 * Opens a repository and runs git in it, in a slot of the client.
 *
 * @throws RepositoryUnavailable, QueueFull, the signal's reason
 */
export function runInSlot<T>(
  queue: FairQueue,
  repository: RepositoryFiles,
  client: QueueClient,
  work: (opened: OpenedRepository) => Promise<T>,
): Promise<T> {
  return queue.run(client, () => openRepository(repository).then(work))
}

/** Reads values once for all who ask, and caches them until the repository changes. */
export class CachedReads<Value extends object> {
  readonly #queue: FairQueue
  readonly #runs = new SharedRuns<Value>()
  readonly #outcomes: FileCache<Outcome<Value>>

  /**
   * @param maxBytes of all cached values together; the least recently used ones are dropped
   * @param bytesOf returns about how much memory a value takes
   */
  constructor(queue: FairQueue, maxBytes: number, bytesOf: (value: Value) => number) {
    this.#queue = queue
    this.#outcomes = new FileCache({
      maxBytes,
      bytesOf: (outcome) => (outcome instanceof GitTimeout ? 0 : bytesOf(outcome)),
      maxAge: MAX_AGE,
    })
  }

  /** Returns the cached value, or reads it. Throws as `runInSlot`. */
  async get(
    repository: RepositoryFiles,
    key: string,
    client: QueueClient,
    reading: Reading<Value>,
  ): Promise<Value> {
    const cachedOutcome = await this.#outcomes.get(key)
    if (cachedOutcome) return openOutcome(cachedOutcome)

    const find = async (waiting: RunClient) => {
      // What this run has waited for may have read the value.
      const outcome = await this.#outcomes.get(key)
      if (outcome) return openOutcome(outcome)
      const read = (opened: OpenedRepository) => this.#read(opened, key, reading, waiting.signal)
      return openOutcome(await runInSlot(this.#queue, repository, waiting, read))
    }
    return this.#runs.join(key, find, client)
  }

  /** Returns the cached value; undefined if `get` would read it. */
  async known(key: string): Promise<Value | undefined> {
    const outcome = await this.#outcomes.get(key)
    return outcome instanceof GitTimeout ? undefined : outcome
  }

  /** Returns whether a value was cached, which may have changed since. */
  has(key: string): boolean {
    return this.#outcomes.has(key)
  }

  async #read(
    repository: OpenedRepository,
    key: string,
    reading: Reading<Value>,
    signal: AbortSignal,
  ): Promise<Outcome<Value>> {
    const state = await reading.state?.()
    const outcome = await reading.read(repository, signal).catch((error: unknown) => {
      if (error instanceof GitTimeout) return error
      throw error
    })
    this.#outcomes.set(key, outcome, state)
    return outcome
  }
}

function openOutcome<Value>(outcome: Outcome<Value>): Value {
  if (outcome instanceof GitTimeout) throw outcome
  return outcome
}
