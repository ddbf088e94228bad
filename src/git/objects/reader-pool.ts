import { checkOwner } from '../repository-owner.ts'
import { ObjectReader, type Question } from './object-reader.ts'

/** Maximum number of processes, lifetime of a process, and time in which it must end. Times are milliseconds. */
export interface PoolLimits {
  readonly maxProcesses: number
  readonly maxAge: number
  readonly timeout: number
}

/** A repository. */
export interface LookupRepository {
  /** Never used again for another repository. */
  readonly id: number
  /** Absolute path of its git directory. */
  readonly path: string
  /** See `RepositoryFolder`. */
  readonly checksOwner?: boolean
}

type Entry = { reader: ObjectReader; state: string; age: NodeJS.Timeout }

/**
 * Keeps at most one active process for each repository.
 *
 * At most `maxProcesses` exist, including those that are ending. If another one is needed, the least recently used process is
 * ended: it still answers its questions, and the first waiting repository then takes its slot. So every repository gets its
 * turn. The wait is bounded by `timeout`, after which an ending process is killed.
 */
export class ReaderPool {
  readonly #limits: PoolLimits
  readonly #onExit: (id: number) => void
  /** Active processes by repository, the least recently used first. */
  readonly #serving = new Map<number, Entry>()
  readonly #waiting: (() => void)[] = []
  /** Number of slots taken: processes that have not ended, active or not. */
  #taken = 0
  #whenEmpty: (() => void) | undefined

  /** @param onExit called with the repository's id when one of its processes has ended */
  constructor(limits: PoolLimits, onExit: (id: number) => void) {
    this.#limits = limits
    this.#onExit = onExit
  }

  /** Number of processes that have not ended. */
  get size(): number {
    return this.#taken
  }

  /** Returns whether the repository has an active process. */
  serves(id: number): boolean {
    return this.#serving.has(id)
  }

  /**
   * Sends questions to the repository's process. Starts a process if there is none, or if the `state` of the repository has
   * changed since the process was started.
   *
   * @throws the error of starting a process; then no question is answered or lost
   */
  async ask(repository: LookupRepository, state: string, questions: readonly Question[]): Promise<void> {
    const { id } = repository
    const entry = this.#serving.get(id)
    if (entry?.state === state) {
      this.#serving.delete(id)
      this.#serving.set(id, entry)
      entry.reader.ask(questions)
      return
    }
    this.end(id)
    await checkOwner(repository)
    await this.#slot()
    this.#start(repository, state).ask(questions)
    this.#makeRoom()
  }

  /** Ends the repository's process after it has answered its questions. */
  end(id: number): void {
    this.#remove(id)?.reader.end()
  }

  /** Kills the repository's process if it has unanswered questions. */
  killBusy(id: number): void {
    if (this.#serving.get(id)?.reader.busy) this.#remove(id)?.reader.kill()
  }

  /** Ends all processes and resolves when they are gone. Nothing may be asked after this. */
  async close(): Promise<void> {
    for (const id of this.#serving.keys()) this.end(id)
    if (this.#taken === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#whenEmpty = resolve
    await promise
  }

  #start({ id, path }: LookupRepository, state: string): ObjectReader {
    const { maxAge, timeout } = this.#limits
    try {
      const reader = new ObjectReader(path, timeout, () => {
        if (this.#serving.get(id)?.reader === reader) this.#remove(id)
        this.#free()
        this.#onExit(id)
      })
      // git keeps packs open and finds objects in them even after a garbage collection has removed the packs.
      const age = setTimeout(() => this.end(id), maxAge).unref()
      this.#serving.set(id, { reader, state, age })
      return reader
    } catch (error) {
      this.#free()
      throw error
    }
  }

  #remove(id: number): Entry | undefined {
    const entry = this.#serving.get(id)
    if (entry === undefined) return undefined
    this.#serving.delete(id)
    clearTimeout(entry.age)
    return entry
  }

  /** Takes a slot as soon as there is one. */
  #slot(): Promise<void> {
    if (this.#taken < this.#limits.maxProcesses) {
      this.#taken += 1
      return Promise.resolve()
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    this.#makeRoom()
    return promise
  }

  /** Releases a slot or passes it to the first waiting caller. */
  #free(): void {
    const next = this.#waiting.shift()
    if (next !== undefined) {
      next()
      return
    }
    this.#taken -= 1
    if (this.#taken === 0) this.#whenEmpty?.()
  }

  /**
   * Ends processes until as many slots become free as callers wait. A slot that is taken but serves no repository belongs to a
   * process that is ending, and will be passed to one of them.
   */
  #makeRoom(): void {
    for (const id of this.#serving.keys()) {
      if (this.#waiting.length <= this.#taken - this.#serving.size) return
      this.end(id)
    }
  }
}
