import type { Kysely } from 'kysely'
import type { Prepared } from './prepared.ts'
import type { Tables } from './tables.ts'

/** One database, whatever its dialect. */
export interface Engine {
  readonly dialect: DialectSql
  /** For everything that is not on the hot path. */
  readonly kysely: Kysely<Tables>
  /**
   * Runs a query that only reads. Given a key, an engine may answer from memory, with the very same rows, where it is
   * sure that a new read would give the same.
   */
  read<Params, Row>(query: Prepared<Params, Row>, params: Params, memory?: Memory<Row>): Promise<Row[]>
  /**
   * Runs a query that reads what may be many rows, and lets other work go on meanwhile.
   *
   * @param memory `part` and `keep` are not looked at
   * @param admit waited for before rows are read; not called where they are in memory
   */
  readMany<Params, Row>(
    query: Prepared<Params, Row>,
    params: Params,
    memory: Memory<Row>,
    admit?: () => Promise<void>,
  ): Promise<Row[]>
  /**
   * Runs one statement that writes. When the promise is fulfilled, its effect survives a crash and a power cut.
   *
   * @param touched key of the only remembered rows that it can change; without it, it may change any
   * @throws ForeignKeyViolation; StoreUnavailable
   */
  write<Params, Row>(query: Prepared<Params, Row>, params: Params, touched?: string): Promise<Row[]>
  /**
   * Writes one row of a group of rows that is limited in number, and replaces it where it is there. The limit is exact,
   * whatever is written at the same time by however many processes. Durable as `write`.
   *
   * @param group names the rows, also where they are remembered
   * @returns the row; null where it would be one too many
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
  /** The highest id that a table with numbered rows ever gave out, 0 when none. */
  lastId(db: Kysely<Tables>, table: string): Promise<number>
  /** Sees to it that the table never gives out an id up to this one. */
  setLastId(db: Kysely<Tables>, table: string, id: number): Promise<void>
  /** What the database finds wrong with its own files, where it can be asked; a sentence for each. */
  checkFiles?(): Promise<string[]>
  /** Where connections are shared by a pool: how many there are. */
  pool?(): PoolFigures
  close(): Promise<void>
}

/** Statements by which a row of a limited group is written: an engine uses those that suit it. */
export interface LimitedWrite<Params, Row> {
  /** Rows that a group may have. */
  limit: number
  /** Adds the row, or replaces it where it is there. */
  upsert: Prepared<Params, Row>
  /** The same, but returns no row where it would be one too many. */
  upsertWithin: Prepared<Params, Row>
  /** Returns no row where there is none to replace. */
  replace: Prepared<Params, Row>
  /** Counts the group, no further than to the limit. */
  count: Prepared<Params, { rows: number }>
  /** Whether `upsert` has added the row that it returned. */
  isNew(row: Row, params: Params): boolean
}

/** How rows that were read may be remembered. */
export interface Memory<Row> {
  /** Names the query, and what its rows depend on: a write that touches that forgets them. */
  key: string
  /** Tells rows apart that depend on the same. */
  part?: string
  /**
   * The same request has read with a key before: what is remembered since then is as fresh as it needs, so the engine
   * need not look again whether anything has changed.
   */
  sameRequest?: boolean
  /** Whether these rows may be; without it all may. Rows that change as time passes must not. */
  keep?(rows: Row[]): boolean
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
  /** After the columns of a table whose rows lie in the order of its primary key, where the dialect can. */
  clustered: string
  /** The larger of two numbers. */
  greatest: 'max' | 'greatest'
  /** Milliseconds since the epoch, by the database's clock. The same throughout a statement. */
  now: string
  /** The same at the moment of its evaluation, which may come after a wait for a lock. */
  clock: string
}

/** A row refers to another one that is not there, or no longer. Nothing was written. */
export class ForeignKeyViolation extends Error {
  override name = 'ForeignKeyViolation'
}

/** The database is away, full or locked for too long; trying again later may help. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable'
}
