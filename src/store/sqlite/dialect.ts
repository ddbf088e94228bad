import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type QueryResult,
  SqliteDialect,
  SqliteDriver,
  type TransactionSettings,
} from 'kysely'
import type { Connection } from './connection.ts'
import { whenFree } from './faults.ts'

/** Kysely's SQLite dialect over a connection with prepared statements, which waits for other processes' writes. */
export class PatientSqliteDialect extends SqliteDialect {
  readonly #connection: Connection

  constructor(connection: Connection) {
    super({ database: connection.raw })
    this.#connection = connection
  }

  override createDriver(): Driver {
    const connection = this.#connection
    const database = {
      prepare: (sql: string) => connection.prepare(sql),
      close: () => connection.close(),
    }
    // better-sqlite3's statements answer more than Kysely asks of them.
    return new PatientDriver({ database })
  }
}

class PatientDriver extends SqliteDriver {
  override async acquireConnection(): Promise<DatabaseConnection> {
    return new PatientConnection(await super.acquireConnection())
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

class PatientConnection implements DatabaseConnection {
  readonly #inner: DatabaseConnection

  constructor(inner: DatabaseConnection) {
    this.#inner = inner
  }

  executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    return whenFree(() => this.#inner.executeQuery<Row>(query))
  }

  streamQuery<Row>(query: CompiledQuery, chunkSize: number): AsyncIterableIterator<QueryResult<Row>> {
    return this.#inner.streamQuery<Row>(query, chunkSize)
  }
}
