import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  SqliteAdapter,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from 'kysely'
import { checkOutsideTransaction } from '../transaction-context.ts'
import type { Connection } from './connection.ts'
import { retryWhileBusy } from './driver-errors.ts'

/**
 * Returns Kysely's SQLite dialect with cached prepared statements, which wait for writes of other
 * processes.
 *
 * @param afterCommit is called after each commit, also that of a single statement, which fails if
 * it throws
 */
export function retryingSqliteDialect(connection: Connection, afterCommit: () => void): Dialect {
  return {
    createAdapter: () => new OwnTurnsAdapter(),
    createDriver: () => new RetryingDriver(connection, afterCommit),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  }
}

/** Leaves it to the driver that users of the only connection take turns. */
class OwnTurnsAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true
  }
}

class RetryingDriver extends SqliteDriver {
  readonly #connection: Connection
  readonly #afterCommit: () => void
  /** When the last one that waits for the connection has released it. */
  #free = Promise.resolve()
  #release = () => {}

  constructor(connection: Connection, afterCommit: () => void) {
    // better-sqlite3's statements have all methods that Kysely needs.
    super({
      database: { prepare: (sql: string) => connection.prepare(sql), close: () => connection.close() },
    })
    this.#connection = connection
    this.#afterCommit = afterCommit
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    checkOutsideTransaction()
    const free = this.#free
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#free = promise
    await free
    this.#release = resolve
    const inner = await super.acquireConnection()
    return {
      executeQuery: async <Row>(query: CompiledQuery) => {
        const result = await retryWhileBusy(() => inner.executeQuery<Row>(query))
        if (!this.#connection.raw.inTransaction) this.#afterCommit()
        return result
      },
      streamQuery: <Row>(query: CompiledQuery, chunkSize: number) => inner.streamQuery<Row>(query, chunkSize),
    }
  }

  override async releaseConnection(): Promise<void> {
    this.#release()
  }

  /**
   * Does nothing if SQLite has rolled back by itself, for example on a full disk, so that the
   * original error is thrown.
   */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#connection.raw.inTransaction) await super.rollbackTransaction(connection)
  }

  /**
   * Takes the write lock at the beginning, because a transaction that has read cannot wait for it.
   */
  override async beginTransaction(
    connection: DatabaseConnection,
    settings?: TransactionSettings,
  ): Promise<void> {
    const onlyReads = settings?.accessMode === 'read only'
    await connection.executeQuery(CompiledQuery.raw(onlyReads ? 'begin' : 'begin immediate'))
  }
}
