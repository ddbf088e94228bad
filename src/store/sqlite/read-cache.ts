import type { Memory } from '../engine.ts'
import type { Connection } from './connection.ts'
import { retryWhileBusy } from './driver-errors.ts'
import { RowCache } from './row-cache.ts'

/** Bytes of memory, about, for rows that were read in slices: they drive out no others. */
const LARGE_ROWS = 32 * 1024 * 1024

/**
 * Reads that are answered from memory where that cannot be stale.
 *
 * SQLite counts the commits of all other connections, in this process and in every other one (`PRAGMA data_version`).
 * The reads of one event-loop turn look at the counter once, after all of them have arrived: where it stands still,
 * what was read before is what would be read now. Commits of this connection itself do not count; it says what they
 * touch.
 */
export class ReadCache {
  readonly #cache = new RowCache()
  readonly #large = new RowCache(LARGE_ROWS)
  /** Reads that take several turns, by key; one whose rows have changed since it began is not here any more. */
  readonly #underWay = new Map<string, Promise<unknown[]>>()
  readonly #counter: () => unknown
  #version: unknown
  readonly #onRead: () => void
  readonly #check: () => void
  #looking: Promise<void> | null = null

  /**
   * @param onRead called when all that waited for a look have got what they wanted, and done what followed at once
   * @param check called with each look; when it throws, nothing is read
   */
  constructor(connection: Connection, { onRead, check }: { onRead(): void; check(): void }) {
    this.#onRead = onRead
    this.#check = check
    const pragma = connection.prepare('pragma data_version').pluck()
    this.#counter = () => pragma.get()
  }

  async read<Row>(read: () => Row[], { key, part = '', keep, sameRequest }: Memory<Row>): Promise<Row[]> {
    if (!sameRequest) await this.#look()
    const known = this.#cache.get(key, part)
    if (known !== undefined) return this.#as<Row>(known)
    return retryWhileBusy(() => {
      // Not older than what the counter stood for; should it be newer, the counter has moved by the next look.
      const rows = read()
      // At once: others of the same turn are about to ask for the same.
      if (keep === undefined || keep(rows)) this.#cache.set(key, part, rows)
      return rows
    })
  }

  /**
   * Reads many rows, which takes several turns.
   *
   * @param admit waited for before anything is read
   */
  async readMany<Row>(
    read: () => Promise<Row[]>,
    { key, sameRequest }: Pick<Memory<Row>, 'key' | 'sameRequest'>,
    admit?: () => Promise<void>,
  ): Promise<Row[]> {
    if (!sameRequest) await this.#look()
    const known = this.#large.get(key)
    if (known !== undefined) return this.#as<Row>(known)
    await admit?.()
    // Somebody else may have read them while this caller waited.
    const since = this.#large.get(key) ?? this.#underWay.get(key)
    if (since !== undefined) return this.#as<Row>(await since)
    const reading = read()
    this.#underWay.set(key, reading)
    try {
      const rows = await reading
      if (this.#underWay.get(key) === reading) this.#large.set(key, '', rows)
      return rows
    } finally {
      if (this.#underWay.get(key) === reading) this.#underWay.delete(key)
    }
  }

  /** A key names one query: its rows are what that query gives. */
  #as<Row>(rows: unknown[]): Row[]
  #as(rows: unknown[]): unknown[] {
    return rows
  }

  /** A write of this connection has changed what the key names, or anything at all. */
  touched(key: string | undefined): void {
    if (key === undefined) {
      this.#clear()
    } else {
      this.#cache.drop(key)
      this.#large.drop(key)
      this.#underWay.delete(key)
    }
  }

  #clear(): void {
    this.#cache.clear()
    this.#large.clear()
    this.#underWay.clear()
  }

  #look(): Promise<void> {
    this.#looking ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        this.#looking = null
        try {
          this.#check()
        } catch (error) {
          return reject(error)
        }
        const version = this.#readVersion()
        if (version === undefined || version !== this.#version) this.#clear()
        this.#version = version
        resolve()
      })
      // Between two of these Node.js runs everything that the first one made possible.
      setImmediate(this.#onRead)
    })
    return this.#looking
  }

  #readVersion(): unknown {
    try {
      return this.#counter()
    } catch {
      // Whether anything has changed cannot be told: then nothing is taken from memory.
      return undefined
    }
  }
}
