import { limitConcurrency } from '../../util/limit-concurrency.ts'
import { runInSlices } from '../../util/run-in-slices.ts'
import { Connection } from './connection.ts'
import { asFault, whenFree } from './faults.ts'

/** KiB of the database in memory: what is read in slices is read once. */
const PAGE_CACHE = 2 * 1024

/**
 * Reads of many rows, which let the event loop turn in between. They have a connection of their own, one at a time: a
 * statement that is not finished holds on to its moment, and blocks all else on its connection.
 */
export class SlicedReads {
  readonly #file: string
  readonly #oneAtATime = limitConcurrency(1)
  #connection: Connection | undefined

  constructor(file: string) {
    this.#file = file
  }

  /** @throws StoreUnavailable */
  read(sql: string, values: readonly unknown[]): Promise<unknown[]> {
    return this.#oneAtATime(async () => {
      const connection = await this.#open()
      const { iterator, first } = await whenFree(() => {
        const iterator = connection.prepare(sql).iterate(...values)
        return { iterator, first: iterator.next() }
      })
      const rows: unknown[] = []
      let next = first
      try {
        await runInSlices(() => {
          if (next.done) return false
          rows.push(next.value)
          next = iterator.next()
          return true
        })
      } catch (error) {
        iterator.return?.()
        throw asFault(error)
      }
      return rows
    })
  }

  /** Waits for what is under way. */
  close(): Promise<void> {
    return this.#oneAtATime(async () => this.#connection?.close())
  }

  async #open(): Promise<Connection> {
    this.#connection ??= await whenFree(() => new Connection(this.#file, PAGE_CACHE))
    return this.#connection
  }
}
