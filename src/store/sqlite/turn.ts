import Sqlite from 'better-sqlite3'
import { Batches } from '../../schedule/batches.ts'
import { ownTurn } from '../../schedule/own-turn.ts'
import { type CacheOptions, WrittenTooLate } from '../engine.ts'
import type { Prepared } from '../prepared.ts'
import { MANY_ROWS } from '../steps.ts'
import type { Connection } from './connection.ts'
import type { DatabaseFiles } from './database-files.ts'
import { retryWhileBusy, translateError } from './driver-errors.ts'
import { RowCache } from './row-cache.ts'

/*
 * The cache of rows and the group commit follow one schedule, once per turn of Node's event loop:
 *
 *   poll phase    requests arrive and call read()
 *       │
 *       ▼
 *   VALIDATE      has another connection committed since the last validation? (PRAGMA data_version)
 *       │         yes: clear the cache
 *       ▼
 *   READ          everything that waited for the validation continues. Reads are answered from the
 *       │         cache or by a query, and need no other validation in this turn: their callers
 *       │         arrived before it.
 *       ▼
 *   COMMIT        all writes that these requests made: one transaction, one sync to disk (Batches)
 *       │
 *       ▼
 *   INVALIDATE    drop the cached rows that the writes changed, then fulfil their promises
 *
 * VALIDATE and COMMIT are two callbacks of setImmediate that are queued together. Between them Node
 * runs all promise callbacks and process.nextTick(), but no I/O, so no new request can begin there.
 * A request that arrives later waits for the next validation: a token that was revoked before it
 * was sent is never found in the cache.
 *
 * The cache is never stale:
 * - Commits of other connections, in this process and in others, change `data_version`. Kysely's
 *   are among them, because Kysely has a connection of its own (see engine.ts). Its statements also
 *   end READ, so that the caller that made them sees their effect at once.
 * - Commits of this connection do not change it. They name the key that they invalidate, or
 *   nothing: then all is cleared.
 * - Rows that are read after the validation may be newer than it. Then `data_version` has changed
 *   by the next one.
 *
 * A read returns the same array as before while nothing has changed. Callers may cache by its
 * identity.
 *
 * Many rows leave the thread to others: on average, queries read MANY_ROWS in a turn, and wait for
 * later ones after a larger result. Whoever gets many rows goes on in a turn of its own, because to
 * encode them takes as long as to read them.
 */

/** A statement of a group commit, and what its caller waits for. */
interface GroupedWrite {
  sql: string
  values: readonly unknown[]
  /** The keys of the only cached rows that it can change; none: it may change any. */
  invalidates: readonly string[]
  /** Returns whether it must not be made any more. */
  isLate(): boolean
  resolve(rows: unknown[]): void
  reject(error: unknown): void
}

/** Reads through a cache and commits in groups, on one connection that nothing else writes on. */
export class Turn {
  readonly #connection: Connection
  readonly #files: Pick<DatabaseFiles, 'check' | 'checkNowAndThen'>
  readonly #dataVersion: Sqlite.Statement<unknown[]>
  readonly #cache = new RowCache()
  #version: unknown
  #validation: Promise<void> | null = null
  /** Between VALIDATE and COMMIT. */
  #isReading = false
  /** Rows that queries have read, less MANY_ROWS for each turn. */
  #rowsRead = 0
  readonly #writes = new Batches<GroupedWrite>({ run: (group) => this.#commit(group) })

  /**
   * @param files are checked with each validation: if that throws, nothing is read; and after each
   * commit: if that throws, its writes are not acknowledged
   */
  constructor(connection: Connection, files: Pick<DatabaseFiles, 'check' | 'checkNowAndThen'>) {
    this.#connection = connection
    this.#files = files
    this.#dataVersion = connection.prepare('pragma data_version').pluck()
  }

  /**
   * Returns the cached rows, or runs the query and caches its rows.
   *
   * @throws StoreUnavailable
   */
  async read<Params, Row>(
    query: Prepared<Params, Row>,
    params: Params,
    { key, variant = '', cacheable }: CacheOptions<Row>,
  ): Promise<Row[]> {
    if (!this.#isReading) await this.#validate()
    for (;;) {
      const cachedRows = this.#cache.get<Row>(key, variant)
      if (cachedRows !== undefined) {
        if (cachedRows.length >= MANY_ROWS) await ownTurn()
        return cachedRows
      }
      if (this.#rowsRead < MANY_ROWS) break
      await this.#validate()
    }
    const rows = await retryWhileBusy(() => {
      const rows = this.#connection.all(query, params)
      this.#rowsRead += rows.length
      if (cacheable === undefined || cacheable(rows)) this.#cache.set(key, variant, rows)
      return rows
    })
    if (rows.length >= MANY_ROWS) await ownTurn()
    return rows
  }

  /**
   * Runs a statement in the next group commit.
   *
   * @param invalidates the keys of the only cached rows that it can change; none: it may change any
   * @returns the rows, once they are on disk
   * @throws ForeignKeyViolation, WrittenTooLate, StoreUnavailable and other errors of the driver
   */
  write<Params, Row>(
    { sql, bind, isLate }: Prepared<Params, Row>,
    params: Params,
    ...invalidates: string[]
  ): Promise<Row[]> {
    const written = new Promise<unknown[]>((resolve, reject) => {
      const write = { sql, values: bind(params), isLate: () => isLate?.(params) === true }
      this.#writes.add({ ...write, invalidates, resolve, reject })
    })
    // As in `Connection.all`, the statement decides what a row is.
    return written as Promise<Row[]>
  }

  /**
   * Makes the next read wait for another validation. To be called when another connection of this
   * process may have committed.
   */
  requireValidation(): void {
    this.#isReading = false
  }

  /** Waits until all writes are done. */
  idle(): Promise<void> {
    return this.#writes.idle()
  }

  #validate(): Promise<void> {
    this.#validation ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        this.#validation = null
        try {
          this.#files.checkNowAndThen()
          const version = this.#foreignChanges()
          // If the counter cannot be read, bypass the cache.
          if (version === undefined || version !== this.#version) this.#cache.clear()
          this.#version = version
          this.#isReading = true
          this.#rowsRead = Math.max(0, this.#rowsRead - MANY_ROWS)
          resolve()
        } catch (error) {
          reject(error)
        }
      })
      setImmediate(() => {
        this.#isReading = false
        this.#writes.begin()
      })
    })
    return this.#validation
  }

  /**
   * Returns a value that changes when another connection commits; undefined if it cannot be read.
   */
  #foreignChanges(): unknown {
    try {
      return this.#dataVersion.get()
    } catch (error) {
      if (!(error instanceof Sqlite.SqliteError)) throw error
      return undefined
    }
  }

  async #commit(group: GroupedWrite[]): Promise<void> {
    try {
      const acknowledgments = await retryWhileBusy(() => commitTogether(this.#connection, group))
      for (const { invalidates } of group) {
        if (invalidates.length === 0) this.#cache.clear()
        for (const key of invalidates) this.#cache.drop(key)
      }
      this.#files.check()
      for (const acknowledge of acknowledgments) acknowledge()
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }
}

/**
 * Runs all statements in one transaction. One that fails does not affect the others.
 *
 * @returns functions that tell the callers what their statements returned or threw
 * @throws the error of SQLite if it rolled back the whole transaction (disk full, out of memory),
 * or cannot commit
 */
function commitTogether(connection: Connection, writes: readonly GroupedWrite[]): (() => void)[] {
  const { raw } = connection
  // From here until the commit nothing else writes.
  connection.prepare('begin immediate').run()
  try {
    const acknowledgments = writes.map(({ sql, values, isLate, resolve, reject }) => {
      if (isLate())
        return () => reject(new WrittenTooLate('SQLite: another process kept the database locked'))
      try {
        const statement = connection.prepare(sql)
        if (!statement.reader) statement.run(...values)
        const rows = statement.reader ? statement.all(...values) : []
        return () => resolve(rows)
      } catch (error) {
        if (!raw.inTransaction) throw error
        return () => reject(translateError(error))
      }
    })
    connection.prepare('commit').run()
    return acknowledgments
  } catch (error) {
    if (raw.inTransaction) raw.exec('rollback')
    throw error
  }
}
