import Sqlite from 'better-sqlite3'
import { LRUCache } from 'lru-cache'
import { StoreUnavailable } from '../engine.ts'
import type { Prepared } from '../prepared.ts'

/** Maximum number of prepared statements of a connection. */
const STATEMENTS = 200

/**
 * Page cache in KiB. SQLite's default of 2 MB is too small for the active commits of a large
 * database.
 */
const PAGE_CACHE = 32 * 1024

/** A connection that caches prepared statements. */
export class Connection {
  readonly raw: Sqlite.Database
  readonly #statements = new LRUCache<string, Sqlite.Statement<unknown[]>>({ max: STATEMENTS })

  /**
   * Opens a connection.
   *
   * @param file is created if it is missing
   * @param pageCache in KiB
   * @throws StoreUnavailable if commits would not be durable
   */
  constructor(file: string, pageCache = PAGE_CACHE) {
    this.raw = new Sqlite(file, { timeout: 0 })
    // With a write-ahead log, a writer does not block readers; FULL syncs it before a commit
    // returns. `synchronous` must be set for each connection.
    this.raw.pragma('journal_mode = WAL')
    this.raw.pragma('synchronous = FULL')
    this.raw.pragma('foreign_keys = ON')
    this.raw.pragma(`cache_size = -${pageCache}`)
    const mode = this.raw.pragma('journal_mode', { simple: true })
    const synchronous = this.raw.pragma('synchronous', { simple: true })
    if (mode !== 'wal' || synchronous !== 2) {
      throw new StoreUnavailable(
        `SQLite: commits would not be durable: journal_mode is ${mode}, synchronous is ${synchronous}`,
      )
    }
  }

  prepare(sql: string): Sqlite.Statement<unknown[]> {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.raw.prepare<unknown[]>(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  /**
   * Runs a query. The statement decides what a row is; `prepare` derived the type from the same
   * query.
   */
  all<Params, Row>({ sql, bind }: Prepared<Params, Row>, params: Params): Row[] {
    return this.prepare(sql).all(...bind(params)) as Row[]
  }

  close(): void {
    this.raw.close()
  }
}
