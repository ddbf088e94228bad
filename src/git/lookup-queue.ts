import { gitDirOf, type RepositoryFolder } from './git-dir.ts'
import type { Answer, Question } from './object-reader.ts'
import type { ReaderPool } from './reader-pool.ts'
import {
  checkRepositoryFiles,
  packState,
  type RepositoryUnavailable,
  unavailable,
} from './repository-health.ts'

/** A repository by its id, which is never used again for another one. */
export interface LookupRepository extends Readonly<RepositoryFolder> {
  readonly id: number
}

/**
 * The look-ups of one repository, from the question to the answer.
 *
 * Those of one turn of the event loop are gathered and go to git in one write, after one `stat` that tells whether packs
 * came or went since the process began. More come together while that is under way, so the busier the server, the
 * fewer calls a look-up.
 */
export class LookupQueue {
  readonly #repository: LookupRepository
  readonly #pool: ReaderPool
  readonly #onIdle: (queue: LookupQueue) => void
  /** In the order of asking. What is not in here has its answer. */
  readonly #open = new Set<Lookup>()
  #gathered: Lookup[] = []
  #sending = false
  #missing: Lookup[] = []
  #checking = false
  #knownOpenable: string | undefined

  /** @param onIdle called whenever the last open look-up got its answer and nothing is under way any more */
  constructor(repository: LookupRepository, pool: ReaderPool, onIdle: (queue: LookupQueue) => void) {
    this.#repository = repository
    this.#pool = pool
    this.#onIdle = onIdle
  }

  /** Whether nothing is asked and nothing under way. */
  get idle(): boolean {
    return this.#open.size === 0 && !this.#sending && !this.#checking
  }

  get id(): number {
    return this.#repository.id
  }

  /** Whether `sha`, a full id of the repository's format, is a commit. Rejects with RepositoryUnavailable. */
  ask(sha: string): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const lookup = new Lookup(this, sha, resolve, reject)
      this.#open.add(lookup)
      this.#gather(lookup)
    })
  }

  /** Rejects every look-up that was asked before `deadline` (`performance.now`) and kills the process that owes it. */
  expire(deadline: number): void {
    let expired = 0
    for (const lookup of this.#open) {
      if (lookup.askedAt > deadline) break
      this.fail(lookup, 'git did not answer in time')
      expired += 1
    }
    if (expired > 0) this.#pool.killBusy(this.id)
  }

  /** Takes git's answer; `missing` is believed when the repository can be opened. */
  answer(lookup: Lookup, answer: Answer): void {
    if (answer !== 'missing') {
      this.#settle(lookup, answer === 'commit')
      return
    }
    this.#missing.push(lookup)
    if (this.#checking) return
    this.#checking = true
    queueMicrotask(() => void this.#checkMissing())
  }

  /** Asks again. */
  repeat(lookup: Lookup): void {
    if (this.#open.has(lookup)) this.#gather(lookup)
  }

  /** Gives up. */
  fail(lookup: Lookup, reason: unknown): void {
    this.#settle(lookup, unavailable(this.#repository.path, reason))
  }

  #gather(lookup: Lookup): void {
    this.#gathered.push(lookup)
    if (this.#sending) return
    this.#sending = true
    setImmediate(() => void this.#send())
  }

  async #send(): Promise<void> {
    // What is asked from here on waits for the next round, whose `stat` is younger than the question.
    const batch = this.#gathered
    this.#gathered = []
    try {
      const [state, gitDir] = await Promise.all([this.#state(), gitDirOf(this.#repository)])
      await this.#pool.ask({ id: this.id, gitDir }, state, batch)
    } catch (error) {
      this.#pool.end(this.id)
      for (const lookup of batch) this.fail(lookup, error)
    }
    this.#sending = this.#gathered.length > 0
    if (this.#sending) setImmediate(() => void this.#send())
    this.#rest()
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
        this.#knownOpenable = await checkRepositoryFiles(this.#repository.path, this.#knownOpenable)
        for (const lookup of batch) this.#settle(lookup, false)
      } catch (error) {
        this.#knownOpenable = undefined
        this.#pool.end(this.id)
        for (const lookup of batch) this.fail(lookup, error)
      }
    }
    this.#checking = false
    this.#rest()
  }

  #settle(lookup: Lookup, outcome: boolean | RepositoryUnavailable): void {
    if (!this.#open.delete(lookup)) return
    if (typeof outcome === 'boolean') lookup.resolve(outcome)
    else lookup.reject(outcome)
    this.#rest()
  }

  #rest(): void {
    if (this.idle) this.#onIdle(this)
  }
}

class Lookup implements Question {
  readonly sha: string
  readonly askedAt = performance.now()
  readonly resolve: (found: boolean) => void
  readonly reject: (error: Error) => void
  readonly #queue: LookupQueue
  #repeated = false

  constructor(
    queue: LookupQueue,
    sha: string,
    resolve: (found: boolean) => void,
    reject: (error: Error) => void,
  ) {
    this.#queue = queue
    this.sha = sha
    this.resolve = resolve
    this.reject = reject
  }

  answered(answer: Answer): void {
    this.#queue.answer(this, answer)
  }

  lost(reason?: string): void {
    if (reason !== undefined && this.#repeated) {
      this.#queue.fail(this, reason)
      return
    }
    if (reason !== undefined) this.#repeated = true
    this.#queue.repeat(this)
  }
}
