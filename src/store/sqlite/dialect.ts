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

/** Kysely's SQLite dialect over a connection with prepared statements, which waits for other processes' writes. */
export class RetryingSqliteDialect extends SqliteDialect {
  readonly #connection: Connection
  readonly #afterCommit: () => void

  /** @param afterCommit called after each commit, also that of a single statement. When it throws, the commit has failed */
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
    // better-sqlite3's statements answer more than Kysely asks of them.
    return new RetryingDriver(database, work)
  }
}

/** What a driver asks of the connection below Kysely's. */
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

  /** Nothing where SQLite has rolled back by itself, as at a full disk: the error that it did so for is the one to know. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#work.inTransaction()) await super.rollbackTransaction(connection)
  }

  /** Takes the write lock at once, if ever: a transaction that began by reading could no longer wait for it. */
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
