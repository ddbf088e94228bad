import { ObjectReader, type Question } from './object-reader.ts'

/** How many processes there may be, and how long one lives and may take. Times are milliseconds. */
export interface PoolLimits {
  readonly maxProcesses: number
  readonly maxAge: number
  readonly timeout: number
}

/** Where a repository is. Its `id` is never used again, so what is kept under it is never another repository's. */
interface RepositoryPlace {
  readonly id: number
  /** As `gitDirOf` returns it. */
  readonly gitDir: string
}

type Entry = { reader: ObjectReader; state: string; age: NodeJS.Timeout }

/**
 * At most one serving process a repository, the least recently used ending first when there are too many.
 *
 * Never more than `maxProcesses` exist, those that are about to end included. When all are taken, the one used longest
 * ago is told to end: it still answers what it was asked, busy or not, and whoever is first in the queue starts in its
 * place. So every repository gets its turn, however many are asked about at once; the wait is bounded by `timeout`,
 * after which a process that was told to end is killed.
 */
export class ReaderPool {
  readonly #limits: PoolLimits
  readonly #onExit: (id: number) => void
  /** The serving processes by repository, the least recently used first. */
  readonly #serving = new Map<number, Entry>()
  readonly #waiting: (() => void)[] = []
  /** Places taken: processes that have not ended, serving or not. */
  #taken = 0
  #whenEmpty: (() => void) | undefined

  /** @param onExit called with the repository's id whenever one of its processes has ended */
  constructor(limits: PoolLimits, onExit: (id: number) => void) {
    this.#limits = limits
    this.#onExit = onExit
  }

  /** How many processes have not ended. */
  get size(): number {
    return this.#taken
  }

  /** Whether a process serves the repository. */
  serves(id: number): boolean {
    return this.#serving.has(id)
  }

  /**
   * Asks the repository's process, a new one if there is none or if it began at another `state` of the repository.
   * Resolves when the questions were handed over.
   *
   * @throws what starting a process throws; no question is answered or lost then
   */
  async ask(repository: RepositoryPlace, state: string, questions: readonly Question[]): Promise<void> {
    const { id } = repository
    const entry = this.#serving.get(id)
    if (entry?.state === state) {
      this.#serving.delete(id)
      this.#serving.set(id, entry)
      entry.reader.ask(questions)
      return
    }
    this.end(id)
    await this.#place()
    this.#start(repository, state).ask(questions)
    this.#makeRoom()
  }

  /** Ends the repository's process after it has answered what it was asked. */
  end(id: number): void {
    this.#remove(id)?.reader.end()
  }

  /** Kills the repository's process if it owes an answer. */
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

  #start({ id, gitDir }: RepositoryPlace, state: string): ObjectReader {
    const { maxAge, timeout } = this.#limits
    try {
      const reader = new ObjectReader(gitDir, timeout, () => {
        if (this.#serving.get(id)?.reader === reader) this.#remove(id)
        this.#free()
        this.#onExit(id)
      })
      // git goes on answering for objects in packs that it once opened, also after a gc removed them.
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

  /** Takes a place as soon as there is one. */
  #place(): Promise<void> {
    if (this.#taken < this.#limits.maxProcesses) {
      this.#taken += 1
      return Promise.resolve()
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    this.#makeRoom()
    return promise
  }

  /** Gives a place up, to whoever waits first. */
  #free(): void {
    const next = this.#waiting.shift()
    if (next !== undefined) {
      next()
      return
    }
    this.#taken -= 1
    if (this.#taken === 0) this.#whenEmpty?.()
  }

  /** Sees to it that as many places are about to become free as are waited for. */
  #makeRoom(): void {
    for (const id of this.#serving.keys()) {
      if (this.#waiting.length <= this.#taken - this.#serving.size) return
      this.end(id)
    }
  }
}
