import { setImmediate } from 'node:timers/promises'
import type { LRUCache } from 'lru-cache'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { SharedRuns } from '../../util/shared-runs.ts'
import { checkComplete } from '../integrity.ts'
import { checkRepositoryFiles, packState, packsOf, unavailable } from '../repository-health.ts'
import { checkOwner, type RepositoryFolder } from '../repository-owner.ts'
import type { ObjectReader } from './object-reader.ts'

/** A repository. Its id is never used again for another one. */
export interface LookupRepository extends RepositoryFolder {
  readonly id: number
  readonly objectFormat: ObjectFormat
}

interface Lookup {
  readonly sha: string
  readonly askedAt: number
  readonly promise: Promise<boolean>
  readonly resolve: (found: boolean) => void
  readonly reject: (error: Error) => void
}

/**
 * The pending lookups of one repository.
 *
 * Lookups of one turn of the event loop are batched: one write to git, after one `stat` that detects packs added or removed
 * since the process started. Lookups that arrive before git has answered form the next batch, so under load a batch grows
 * and the cost of each lookup falls.
 */
export class LookupQueue {
  readonly #repository: LookupRepository
  readonly #readers: LRUCache<number, ObjectReader>
  readonly #createReader: (path: string, packs: string) => ObjectReader
  /** Lookups without a result, in order of arrival. */
  readonly #open = new Set<Lookup>()
  /** The next batch. */
  #batch: Lookup[] = []
  #isSending = false
  readonly #checks = new SharedRuns<void>()
  /** State in which the repository's files were last checked. */
  #checkedState: string | undefined

  /** @param readers the process that serves each repository, by its id */
  constructor(
    repository: LookupRepository,
    readers: LRUCache<number, ObjectReader>,
    createReader: (path: string, packs: string) => ObjectReader,
  ) {
    this.#repository = repository
    this.#readers = readers
    this.#createReader = createReader
  }

  /** The pending lookups. */
  get pending(): Promise<boolean>[] {
    return [...this.#open].map(({ promise }) => promise)
  }

  /** Whether no lookup is pending, and git is not asked. */
  get isIdle(): boolean {
    return this.#open.size === 0 && !this.#isSending
  }

  /** Returns whether `sha`, a full id of the repository's format, is a commit. Rejects with RepositoryUnavailable. */
  ask(sha: string): Promise<boolean> {
    const lookup = { sha, askedAt: performance.now(), ...Promise.withResolvers<boolean>() }
    this.#open.add(lookup)
    this.#batch.push(lookup)
    if (!this.#isSending) void this.#send()
    return lookup.promise
  }

  /** Rejects lookups that began before `deadline` (`performance.now`) and kills the process that did not answer. */
  expire(deadline: number): void {
    const expired = [...this.#open].filter(({ askedAt }) => askedAt <= deadline)
    if (expired.length === 0) return
    this.#readers.peek(this.#repository.id)?.kill()
    this.#fail(expired, 'git did not answer in time')
  }

  async #send(): Promise<void> {
    this.#isSending = true
    while (this.#batch.length > 0) {
      await setImmediate()
      // Lookups that arrive from here on wait for the next batch, whose `stat` comes after them.
      const batch = this.#batch
      this.#batch = []
      await this.#answer(batch)
    }
    this.#isSending = false
  }

  /** Asks git, which is started once more if it ends before it has answered. */
  async #answer(batch: readonly Lookup[]): Promise<void> {
    const { id, path } = this.#repository
    let lookups = batch
    let isRepeated = false
    try {
      while (lookups.length > 0) {
        const packs = await packState(path)
        if (packs === '') await checkRepositoryFiles(path)
        let reader = this.#readers.get(id)
        if (reader?.packs !== packs || reader.ended !== undefined) {
          await checkOwner(this.#repository)
          reader = this.#createReader(path, packs)
          this.#readers.set(id, reader)
        }
        const answers = await reader.ask(lookups.map(({ sha }) => sha))
        const answered = lookups.slice(0, answers.length)
        lookups = lookups.slice(answers.length)
        for (const [index, lookup] of answered.entries())
          if (answers[index] !== 'missing') this.#settle(lookup, answers[index] === 'commit')
        const missing = answered.filter((_, index) => answers[index] === 'missing')
        if (missing.length > 0) void this.#settleMissing(missing)
        const [first] = lookups
        if (first === undefined) return
        // In a partial clone git fails on an object that was omitted by the filter.
        if (reader.ended?.includes(`could not fetch ${first.sha} from promisor remote`))
          this.#settle(first, false)
        else if (isRepeated) throw new Error(reader.ended)
        else isRepeated = true
        lookups = lookups.filter((lookup) => this.#open.has(lookup))
      }
    } catch (error) {
      this.#fail(lookups, error)
    }
  }

  /** git's `missing` counts only if the repository's files can be opened, and none was lost. */
  async #settleMissing(lookups: readonly Lookup[]): Promise<void> {
    const { path } = this.#repository
    const check = async () => {
      this.#checkedState = await checkRepositoryFiles(path, this.#checkedState)
      await checkComplete(path, packsOf(this.#checkedState))
    }
    try {
      await this.#checks.join('', check)
      for (const lookup of lookups) this.#settle(lookup, false)
    } catch (error) {
      this.#checkedState = undefined
      this.#fail(lookups, error)
    }
  }

  /** Rejects lookups, and ends the process, whose state may no longer be that of the repository. */
  #fail(lookups: readonly Lookup[], error: unknown): void {
    this.#readers.delete(this.#repository.id)
    for (const lookup of lookups)
      if (this.#open.delete(lookup)) lookup.reject(unavailable(this.#repository.path, error))
  }

  #settle(lookup: Lookup, found: boolean): void {
    this.#open.delete(lookup)
    lookup.resolve(found)
  }
}
