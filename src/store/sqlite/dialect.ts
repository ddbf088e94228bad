import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type QueryResult,
  type SqliteDatabase,
  SqliteDialect,
  SqliteDriver,
  type TransactionSettings,
} from 'kysely'
import type { Connection } from './connection.ts'
import { retryWhileBusy } from './driver-errors.ts'

/** Kysely's SQLite dialect with cached prepared statements. Statements wait for writes of other processes. */
export class RetryingSqliteDialect extends SqliteDialect {
  readonly #connection: Connection
  readonly #afterCommit: () => void

  /** @param afterCommit is called after each commit, also that of a single statement, which fails if it throws */
  constructor(connection: Connection, afterCommit: () => void) {
    super({ database: connection.raw })
    this.#connection = connection
    this.#afterCommit = afterCommit
  }

  override createDriver(): Driver {
    const connection = this.#connection
    const database = {
      prepare: (sql: string) => connection.prepare(sql),
      close: () => connection.close(),
    }
    const work = { inTransaction: () => connection.raw.inTransaction, afterCommit: this.#afterCommit }
    // better-sqlite3's statements have all methods that Kysely needs.
    return new RetryingDriver(database, work)
  }
}

/** What the driver needs of the connection. */
interface Work {
  inTransaction(): boolean
  afterCommit(): void
}

class RetryingDriver extends SqliteDriver {
  readonly #work: Work

  constructor(database: SqliteDatabase, work: Work) {
    super({ database })
    this.#work = work
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    return new RetryingConnection(await super.acquireConnection(), this.#work)
  }

  /** Does nothing if SQLite has rolled back by itself, for example on a full disk, so that the original error is thrown. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#work.inTransaction()) await super.rollbackTransaction(connection)
  }

  /** Takes the write lock at the beginning, because a transaction that has read cannot wait for it. */
  override async beginTransaction(
    connection: DatabaseConnection,
    settings?: TransactionSettings,
  ): Promise<void> {
    const onlyReads = settings?.accessMode === 'read only'
    await connection.executeQuery(CompiledQuery.raw(onlyReads ? 'begin' : 'begin immediate'))
  }
}

class RetryingConnection implements DatabaseConnection {
  readonly #inner: DatabaseConnection
  readonly #work: Work

  constructor(inner: DatabaseConnection, work: Work) {
    this.#inner = inner
    this.#work = work
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    const result = await retryWhileBusy(() => this.#inner.executeQuery<Row>(query))
    if (!this.#work.inTransaction()) this.#work.afterCommit()
    return result
  }

  streamQuery<Row>(query: CompiledQuery, chunkSize: number): AsyncIterableIterator<QueryResult<Row>> {
    return this.#inner.streamQuery<Row>(query, chunkSize)
  }
}
