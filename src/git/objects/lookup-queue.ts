import type { LRUCache } from 'lru-cache'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { Batches } from '../../schedule/batches.ts'
import { SharedRuns } from '../../schedule/shared-runs.ts'
import { cannotOpen, GitFailed, unavailable } from '../errors.ts'
import { checkComplete } from '../integrity.ts'
import { type OpenedRepository, openRepository, type RepositoryFiles } from '../opened-repository.ts'
import {
  checkObjects,
  checkRepositoryFiles,
  isPartialClone,
  packState,
  packsOf,
} from '../repository-health.ts'
import type { Answer, ObjectReader } from './object-reader.ts'

/** What a lookup needs of a repository. */
export interface LookupRepository extends RepositoryFiles {
  /** Never used again for another one. */
  id: number
  objectFormat: ObjectFormat
}

/** Creates the process of a repository whose packs have this state. */
export type CreateReader = (repository: OpenedRepository, packs: string) => ObjectReader

interface Lookup {
  readonly name: string
  readonly askedAt: number
  readonly promise: Promise<Answer>
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/**
 * The pending lookups of one repository.
 *
 * Lookups of one turn of the event loop are batched: one write to git, after one `stat` that
 * detects packs added or removed since the process started. Lookups that arrive before git has
 * answered form the next batch, whose `stat` comes after them.
 */
export class LookupQueue {
  readonly #repository: LookupRepository
  readonly #readers: LRUCache<number, ObjectReader>
  readonly #createReader: CreateReader
  readonly #completeIn: LRUCache<number, string>
  /** Lookups without a result, in order of arrival. */
  readonly #open = new Set<Lookup>()
  readonly #batches = new Batches<Lookup>({ run: (batch) => this.#answer(batch) })
  readonly #checks = new SharedRuns<void>()
  /** State in which the repository's files were last checked. */
  #checkedState: string | undefined

  /**
   * @param readers the process that serves each repository, by its id
   * @param completeIn the state of the packs of each repository in which it was found to be complete
   */
  constructor(
    repository: LookupRepository,
    readers: LRUCache<number, ObjectReader>,
    createReader: CreateReader,
    completeIn: LRUCache<number, string>,
  ) {
    this.#repository = repository
    this.#readers = readers
    this.#createReader = createReader
    this.#completeIn = completeIn
  }

  /** The pending lookups. */
  get pending(): Promise<Answer>[] {
    return [...this.#open].map(({ promise }) => promise)
  }

  /** Whether no lookup is pending, and git is not asked. */
  get isIdle(): boolean {
    return this.#open.size === 0 && this.#batches.isIdle
  }

  /** Returns what git says about a full id of the repository's format, or what it leads to. */
  ask(name: string): Promise<Answer> {
    const lookup = { name, askedAt: performance.now(), ...Promise.withResolvers<Answer>() }
    this.#open.add(lookup)
    this.#batches.add(lookup)
    return lookup.promise
  }

  /** Rejects lookups that began before `deadline` (`performance.now`) and kills their process. */
  expire(deadline: number): void {
    const expired = [...this.#open].filter(({ askedAt }) => askedAt <= deadline)
    if (expired.length === 0) return
    this.#readers.peek(this.#repository.id)?.kill()
    this.#fail(expired, cannotOpen(this.#repository.path, 'git did not answer in time'))
  }

  /** Asks git, which is started again if it ends before it has answered. */
  async #answer(batch: readonly Lookup[]): Promise<void> {
    let lookups = batch
    /** At which git ended the last time. */
    let failed: Lookup | undefined
    try {
      while (lookups.length > 0) {
        const { rest, ended } = await this.#ask(lookups)
        const [first] = rest
        if (first === undefined) return

        if (first !== failed) lookups = rest
        // In a partial clone git ends at an object that its filter has omitted.
        else if (await isPartialClone(this.#repository.path)) {
          lookups = rest.slice(1)
          void this.#settleMissing([first])
        } else throw new GitFailed(`${ended}`, null)
        failed = first
        lookups = lookups.filter((lookup) => this.#open.has(lookup))
      }
    } catch (error) {
      this.#fail(lookups, error)
    }
  }

  /** Asks git once. @returns the lookups that it did not answer, and why it has ended */
  async #ask(lookups: readonly Lookup[]): Promise<{ rest: readonly Lookup[]; ended: string | undefined }> {
    const reader = await this.#currentReader()
    const answers = await reader.ask(lookups.map(({ name }) => name))

    const answeredLookups = lookups.slice(0, answers.length)
    const missingLookups: Lookup[] = []
    for (const [index, answer] of answers.entries()) {
      const lookup = answeredLookups[index]
      if (lookup && answer.type === 'missing') missingLookups.push(lookup)
      else if (lookup) this.#settle(lookup, answer)
    }
    if (missingLookups.length > 0) void this.#settleMissing(missingLookups)
    return { rest: lookups.slice(answers.length), ended: reader.ended }
  }

  /**
   * Returns the process of the repository, or starts one if there is none, or packs have changed.
   */
  async #currentReader(): Promise<ObjectReader> {
    const { id, path } = this.#repository
    const packs = await packState(path)
    if (packs === '') await checkRepositoryFiles(path)
    const current = this.#readers.get(id)
    if (current?.packs === packs && current.ended === undefined) return current

    const reader = this.#createReader(await openRepository(this.#repository), packs)
    this.#readers.set(id, reader)
    return reader
  }

  /** git's `missing` counts only if the repository's files can be opened, and none was lost. */
  async #settleMissing(lookups: readonly Lookup[]): Promise<void> {
    const check = async () => {
      const opened = await openRepository(this.#repository)
      this.#checkedState = await checkObjects(opened.path, this.#checkedState)
      const packs = packsOf(this.#checkedState)
      if (this.#completeIn.get(this.#repository.id) === packs) return
      if (await checkComplete(opened)) this.#completeIn.set(this.#repository.id, packs)
    }
    try {
      await this.#checks.join('', check)
      for (const lookup of lookups) this.#settle(lookup, { id: lookup.name, type: 'missing' })
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

  #settle(lookup: Lookup, answer: Answer): void {
    this.#open.delete(lookup)
    lookup.resolve(answer)
  }
}
