import Sqlite from 'better-sqlite3'
import { StoreUnavailable } from '../engine.ts'

/** Statements kept prepared on one connection; the least recently used goes. */
const STATEMENTS = 200

/** KiB of the database in memory, at most: SQLite's own 2 MB hold the commits of a large database that are worked on no more. */
const PAGE_CACHE = 32 * 1024

/** A connection that keeps its statements prepared. */
export class Connection {
  readonly raw: Sqlite.Database
  readonly #statements = new Map<string, Sqlite.Statement<unknown[]>>()

  /**
   * @param file created where it is missing
   * @param pageCache KiB of the database in memory, at most
   * @throws StoreUnavailable when the database does not promise what an acknowledged report needs
   */
  constructor(file: string, pageCache = PAGE_CACHE) {
    this.raw = new Sqlite(file, { timeout: 0 })
    // A write-ahead log lets readers go on beside a writer; FULL syncs it before a commit returns. Neither setting of
    // an earlier process can be relied on: `synchronous` is a connection's own.
    this.raw.pragma('journal_mode = WAL')
    this.raw.pragma('synchronous = FULL')
    this.raw.pragma('foreign_keys = ON')
    this.raw.pragma(`cache_size = -${pageCache}`)
    const mode = this.raw.pragma('journal_mode', { simple: true })
    const synchronous = this.raw.pragma('synchronous', { simple: true })
    if (mode !== 'wal' || synchronous !== 2) {
      throw new StoreUnavailable(
        `SQLite would not write durably: journal_mode ${mode}, synchronous ${synchronous}`,
      )
    }
  }

  prepare(sql: string): Sqlite.Statement<unknown[]> {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.raw.prepare<unknown[]>(sql)
    const [oldest] = this.#statements.keys()
    if (oldest !== undefined && this.#statements.size >= STATEMENTS) this.#statements.delete(oldest)
    this.#statements.set(sql, statement)
    return statement
  }

  close(): void {
    this.raw.close()
  }
}
