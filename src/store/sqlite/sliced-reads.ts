import { limitConcurrency } from '../../util/limit-concurrency.ts'
import { runInSlices } from '../../util/run-in-slices.ts'
import { Connection } from './connection.ts'
import { retryWhileBusy, translateError } from './driver-errors.ts'

/** Page cache in KiB. Small, because each page is read once. */
const PAGE_CACHE = 2 * 1024

/**
 * Reads many rows without blocking the event loop. Has its own connection and runs one read at a time: an unfinished
 * statement keeps its snapshot and blocks its connection.
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
    // Opening a missing file would create it.
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
