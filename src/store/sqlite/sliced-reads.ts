import { limitConcurrency } from '../../util/limit-concurrency.ts'
import { runInSlices } from '../../util/run-in-slices.ts'
import { Connection } from './connection.ts'
import { retryWhileBusy, translateError } from './driver-errors.ts'

/** KiB of the database in memory: what is read in slices is read once. */
const PAGE_CACHE = 2 * 1024

/**
 * Reads of many rows, which let the event loop turn in between. They have a connection of their own, one at a time: a
 * statement that is not finished holds on to its moment, and blocks all else on its connection.
 */
export class SlicedReads {
  readonly #file: string
  readonly #check: () => void
  readonly #oneAtATime = limitConcurrency(1)
  #connection: Connection | undefined

  /** @param check throws when the file is not the one that the other connections have open */
  constructor(file: string, check: () => void) {
    this.#file = file
    this.#check = check
  }

  /** @throws StoreUnavailable */
  read(sql: string, values: readonly unknown[]): Promise<unknown[]> {
    return this.#oneAtATime(async () => {
      const connection = await this.#open()
      const { iterator, first } = await retryWhileBusy(() => {
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
        throw translateError(error)
      }
      return rows
    })
  }

  /** Closes the connection after pending reads. */
  close(): Promise<void> {
    return this.#oneAtATime(async () => this.#connection?.close())
  }

  async #open(): Promise<Connection> {
    if (this.#connection) return this.#connection
    // Opening a file that is not there would make one.
    this.#check()
    const connection = await retryWhileBusy(() => new Connection(this.#file, PAGE_CACHE))
    try {
      this.#check()
    } catch (error) {
      connection.close()
      throw error
    }
    this.#connection = connection
    return connection
  }
}
