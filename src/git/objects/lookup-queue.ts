import { checkComplete } from '../integrity.ts'
import {
  checkRepositoryFiles,
  packState,
  packsOf,
  type RepositoryUnavailable,
  unavailable,
} from '../repository-health.ts'
import type { Answer, Question } from './object-reader.ts'
import type { LookupRepository, ReaderPool } from './reader-pool.ts'

interface Lookup extends Question {
  readonly askedAt: number
  readonly resolve: (found: boolean) => void
  readonly reject: (error: Error) => void
  repeated: boolean
}

/**
 * The pending lookups of one repository.
 *
 * Lookups of one turn of the event loop are batched: one write to git, after one `stat` that detects packs added or removed
 * since the process started. Lookups that arrive meanwhile form the next batch, so under load a batch grows and the cost
 * of each lookup falls.
 */
export class LookupQueue {
  readonly #repository: LookupRepository
  readonly #pool: ReaderPool
  readonly #onIdle: () => void
  /** Lookups without a result, in order of arrival. */
  readonly #open = new Set<Lookup>()
  /** The next batch. */
  #batch: Lookup[] = []
  #sending = false
  /** Lookups that git has answered with `missing`, until the repository's files are checked. */
  #missing: Lookup[] = []
  #checking = false
  /** State in which the repository's files were last checked. */
  #checkedState: string | undefined

  /** @param onIdle called when the last pending lookup has its result */
  constructor(repository: LookupRepository, pool: ReaderPool, onIdle: () => void) {
    this.#repository = repository
    this.#pool = pool
    this.#onIdle = onIdle
  }

  /** Whether no lookup is pending. */
  get idle(): boolean {
    return this.#open.size === 0 && !this.#sending && !this.#checking
  }

  /** Returns whether `sha`, a full id of the repository's format, is a commit. Rejects with RepositoryUnavailable. */
  ask(sha: string): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const lookup: Lookup = {
        sha,
        askedAt: performance.now(),
        resolve,
        reject,
        repeated: false,
        answered: (answer) => this.#answer(lookup, answer),
        lost: (reason) => this.#lose(lookup, reason),
      }
      this.#open.add(lookup)
      this.#add(lookup)
    })
  }

  /** Rejects lookups that began before `deadline` (`performance.now`) and kills the process that did not answer. */
  expire(deadline: number): void {
    let expired = 0
    for (const lookup of this.#open) {
      if (lookup.askedAt > deadline) break
      this.#fail(lookup, 'git did not answer in time')
      expired += 1
    }
    if (expired > 0) this.#pool.killBusy(this.#repository.id)
  }

  /** Handles git's answer. `missing` counts only if the repository's files can be opened. */
  #answer(lookup: Lookup, answer: Answer): void {
    if (answer !== 'missing') {
      this.#settle(lookup, answer === 'commit')
      return
    }
    this.#missing.push(lookup)
    if (this.#checking) return
    this.#checking = true
    queueMicrotask(() => void this.#checkMissing())
  }

  /** Adds a lookup that git did not answer to the next batch, once if it may be the reason. */
  #lose(lookup: Lookup, reason: string | undefined): void {
    if (reason !== undefined && lookup.repeated) this.#fail(lookup, reason)
    lookup.repeated ||= reason !== undefined
    if (this.#open.has(lookup)) this.#add(lookup)
  }

  #fail(lookup: Lookup, reason: unknown): void {
    this.#settle(lookup, unavailable(this.#repository.path, reason))
  }

  #add(lookup: Lookup): void {
    this.#batch.push(lookup)
    if (this.#sending) return
    this.#sending = true
    setImmediate(() => void this.#send())
  }

  async #send(): Promise<void> {
    // Lookups that arrive from here on wait for the next batch, whose `stat` comes after them.
    const batch = this.#batch
    this.#batch = []
    try {
      await this.#pool.ask(this.#repository, await this.#state(), batch)
    } catch (error) {
      this.#pool.end(this.#repository.id)
      for (const lookup of batch) this.#fail(lookup, error)
    }
    this.#sending = this.#batch.length > 0
    if (this.#sending) setImmediate(() => void this.#send())
    this.#reportIdle()
  }

  async #state(): Promise<string> {
    const { path } = this.#repository
    const state = await packState(path)
    if (state === '') await checkRepositoryFiles(path)
    return state
  }

  async #checkMissing(): Promise<void> {
    while (this.#missing.length > 0) {
      const batch = this.#missing
      this.#missing = []
      try {
        const { path } = this.#repository
        this.#checkedState = await checkRepositoryFiles(path, this.#checkedState)
        await checkComplete(path, packsOf(this.#checkedState))
        for (const lookup of batch) this.#settle(lookup, false)
      } catch (error) {
        this.#checkedState = undefined
        this.#pool.end(this.#repository.id)
        for (const lookup of batch) this.#fail(lookup, error)
      }
    }
    this.#checking = false
    this.#reportIdle()
  }

  #settle(lookup: Lookup, outcome: boolean | RepositoryUnavailable): void {
    if (!this.#open.delete(lookup)) return
    if (typeof outcome === 'boolean') lookup.resolve(outcome)
    else lookup.reject(outcome)
    this.#reportIdle()
  }

  #reportIdle(): void {
    if (this.idle) this.#onIdle()
  }
}
