import type { Kysely } from 'kysely'
import type { Prepared } from './prepared.ts'
import type { Tables } from './tables.ts'

/** One database, whatever its dialect. */
export interface Engine {
  readonly dialect: DialectSql
  /** Whether each statement is a round trip to a database server. */
  readonly remote: boolean
  /** For everything that is not on the hot path. */
  readonly kysely: Kysely<Tables>
  /**
   * Runs a query that only reads. With cache options, an engine may return the same array as before if it is sure that
   * the query would return equal rows.
   */
  read<Params, Row>(query: Prepared<Params, Row>, params: Params, cache?: CacheOptions<Row>): Promise<Row[]>
  /**
   * Like `read`, for a query with many rows. Other work goes on while it runs.
   *
   * @param key as in `CacheOptions`
   * @param admit awaited before rows are read; not called when they are cached
   */
  readLarge<Params, Row>(
    query: Prepared<Params, Row>,
    params: Params,
    key: string,
    admit?: () => Promise<void>,
  ): Promise<Row[]>
  /**
   * Runs one statement that writes. When the promise is fulfilled, its effect survives a crash and a power cut.
   *
   * @param invalidates the key of the only cached rows that it can change; undefined: it may change any
   * @throws ForeignKeyViolation; StoreUnavailable
   */
  write<Params, Row>(query: Prepared<Params, Row>, params: Params, invalidates?: string): Promise<Row[]>
  /**
   * Adds or replaces one row of a group whose size is limited. The limit is exact, however many processes write at the
   * same time. Durable as `write`.
   *
   * @param group names the group; also the key that the write invalidates
   * @returns the row; null if it would exceed the limit
   * @throws ForeignKeyViolation; StoreUnavailable
   */
  writeLimited<Params, Row>(
    write: LimitedWrite<Params, Row>,
    params: Params,
    group: string,
  ): Promise<Row | null>
  /** Writes something tiny that changes nothing, and waits until it is on disk. @throws StoreUnavailable */
  probe(): Promise<void>
  /** Runs `work` while no other process migrates, in one transaction. */
  exclusively(work: (db: Kysely<Tables>) => Promise<void>): Promise<void>
  /** Returns the highest id that the table ever assigned; 0 if none. */
  lastId(db: Kysely<Tables>, table: string): Promise<number>
  /** Makes sure that the table only assigns ids above this one. */
  setLastId(db: Kysely<Tables>, table: string, id: number): Promise<void>
  /** Returns what the database reports about its own files, one sentence per problem; missing if it has no such check. */
  checkFiles?(): Promise<string[]>
  /** Returns the number of pooled connections; missing without a pool. */
  pool?(): PoolFigures
  close(): Promise<void>
}

/** Statements by which a row of a limited group is written: an engine uses those that suit it. */
export interface LimitedWrite<Params, Row> {
  /** Rows that a group may have. */
  limit: number
  /** Inserts the row, or replaces an existing one. */
  upsert: Prepared<Params, Row>
  /** As `upsert`, but returns no row if the group would exceed `limit`. With the limit 0 it only replaces rows. */
  upsertWithin: Prepared<Params & { limit: number }, Row>
  /** Returns no row if there is nothing to replace. */
  replace: Prepared<Params, Row>
  /** Counts the group, up to the limit. */
  count: Prepared<Params, { rows: number }>
  /** Whether `upsert` has added the row that it returned. */
  isNew(row: Row, params: Params): boolean
}

/** How rows may be cached. */
export interface CacheOptions<Row> {
  /** What the rows depend on: a write that invalidates this key drops them. */
  key: string
  /** Distinguishes queries and parameters with the same key. */
  variant?: string
  /** Returns whether these rows may be cached; by default all may. Rows that change as time passes must not. */
  cacheable?(rows: Row[]): boolean
}

/** Connections that are open, those of them that are idle, and callers that wait for one. */
export interface PoolFigures {
  open: number
  idle: number
  waiting: number
}

/** What the dialects write differently in SQL. */
export interface DialectSql {
  /** A row's own number, never used again once it is deleted. */
  serial: string
  integer: string
  /** Text that sorts by code points. */
  text: string
  /** After the columns of a table whose rows lie in the order of its primary key, if the dialect supports it. */
  clustered: string
  /** The larger of two numbers. */
  greatest: 'max' | 'greatest'
  /** Milliseconds since the epoch, by the database's clock. The same throughout a statement. */
  now: string
  /** The same at the moment of its evaluation, which may come after a wait for a lock. */
  clock: string
}

/** A row refers to one that does not exist. Nothing was written. */
export class ForeignKeyViolation extends Error {
  override name = 'ForeignKeyViolation'
}

/** The database is unreachable, full or locked for too long; trying again later may help. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable'
}
