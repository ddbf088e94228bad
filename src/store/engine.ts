import type { Kysely, RawBuilder, Transaction } from 'kysely'
import type { StatusCounts, StatusState } from '../domain/states.ts'
import { Unavailable } from '../util/expected-errors.ts'
import type { Prepared } from './prepared.ts'
import type { DecidedFields, GivenFields } from './statuses/columns.ts'
import type { RunSql } from './statuses/runs.ts'
import type { Queries, Tables } from './tables.ts'

/** One database, whatever its dialect, for functions that only read. */
export interface Reading {
  readonly dialect: DialectSql
  /** Whether each statement is a round trip to a database server. */
  readonly remote: boolean
  /** For everything that is not on the hot path. */
  readonly kysely: Queries
  /**
   * Runs a query that only reads. With cache options, an engine may return the same array as before
   * if it is sure that the query would return equal rows. Work of a transaction uses the database of
   * its change instead.
   *
   * @throws StoreUnavailable
   */
  read<Params, Row>(query: Prepared<Params, Row>, params: Params, cache?: CacheOptions<Row>): Promise<Row[]>
}

/**
 * One database. What writes by it, instead of a `Change`, is listed in
 * `test/checks/compiler.test.ts`.
 */
export interface Engine extends Reading {
  readonly kysely: Kysely<Tables>
  /**
   * Runs one statement that writes. When the promise is fulfilled, its effect survives a crash and
   * a power cut.
   *
   * @param invalidates the keys of the only cached rows that it can change; none: it may change any
   * @throws ForeignKeyViolation; WrittenTooLate; StoreUnavailable
   */
  write<Params, Row>(query: Prepared<Params, Row>, params: Params, ...invalidates: string[]): Promise<Row[]>
  /**
   * Writes something tiny that changes nothing, and waits until it is on disk.
   *
   * @throws StoreUnavailable
   */
  probe(): Promise<void>
  /** Runs `work` while no other process migrates, in one transaction. */
  exclusively(work: (db: Transaction<Tables>) => Promise<void>): Promise<void>
  /**
   * Runs the last part of such work, which locks tables. As long as others use them, it is undone and
   * runs again, so that nobody waits behind it for long. The transaction must have locked none before.
   */
  lockBriefly(db: Transaction<Tables>, work: () => Promise<void>): Promise<void>
  /**
   * Returns the right that the role of its URL lacks, with the statement that grants it; null if none.
   * Missing if the database has no roles.
   */
  findMissingRight?(): Promise<string | null>
  /** Returns the highest id that the table ever assigned; 0 if none. */
  lastId(db: Kysely<Tables>, table: string): Promise<number>
  /** Makes sure that the table only assigns ids above this one, and above those of its rows. */
  setLastId(db: Transaction<Tables>, table: string, id: number): Promise<void>
  /**
   * Returns what the database reports about its own files and foreign keys, one sentence per
   * problem; missing if it has no such check.
   */
  checkFiles?(): Promise<string[]>
  /**
   * Moves all that was committed into the file of the database, which is complete without others from
   * then on until the next write. Missing if it has no such file.
   *
   * @throws StoreUnavailable, for example if the disk is full
   */
  completeFile?(): Promise<void>
  /** Returns the number of pooled connections; missing without a pool. */
  pool?(): PoolFigures
  /** Calls the function for each statement of one or more calls; missing where each has its own. */
  observeBatches?(observer: BatchObserver): void
  close(): Promise<void>
}

/** How rows may be cached. */
export interface CacheOptions<Row> {
  /** What the rows depend on: a write that invalidates this key drops them. */
  key: string
  /** Distinguishes queries and parameters with the same key. */
  variant?: string
  /**
   * Returns whether these rows may be cached; by default all may. Rows that change as time passes
   * must not.
   */
  cacheable?(rows: Row[]): boolean
}

/** Receives the milliseconds for which each call of a statement has waited before it was sent. */
export type BatchObserver = (waits: readonly number[]) => void

/** Connections that are open, those of them that are idle, and callers that wait for one. */
export interface PoolFigures {
  open: number
  idle: number
  waiting: number
}

/** A function in the database, and the statement that creates it. */
export interface SchemaFunction {
  /** Another one for each text, so a function of this name is the same one. */
  name: string
  sql: string
}

/** What the dialects write differently in SQL. */
export interface DialectSql extends RunSql {
  /** A row's own number, never used again once it is deleted. */
  serial: string
  integer: string
  /** Text that sorts by code points. */
  text: string
  /**
   * After the columns of a table whose rows lie in the order of its primary key, if the dialect
   * supports it.
   */
  clustered: string
  /**
   * Whether transactions that write run one after the other, so that a statement of theirs can rely
   * on what it counts.
   */
  serialWrites: boolean
  /** Milliseconds since the epoch, by the database's clock. The same throughout a statement. */
  now: string
  /**
   * A text that is another one once anything was committed; where rows are cached, their identity tells
   * this instead.
   */
  snapshot: string
  /** Follows a text: whether it is one of a JSON array. Searches an index for each of them. */
  isOneOf(texts: string): RawBuilder<boolean>
  /** A table of the texts of a JSON array, each with its index. */
  elements(texts: string): RawBuilder<{ position: number; value: string }>
  /** A field of a JSON object in a text, as a text. */
  fieldOf(json: string, name: string): string
  /** The functions that statements call, each after those that it calls. */
  functions: readonly SchemaFunction[]
  /**
   * Returns a function that returns the statement for a report: it stores the report, or returns
   * whose report is stored instead. It returns no row if the commit has `maxContexts` other contexts.
   */
  reporting(
    kysely: Kysely<Tables>,
    maxContexts: number,
  ): (report: GivenFields) => Prepared<GivenFields, DecidedFields>
  /** Returns statements for many commits; missing where one for each commit is as fast. */
  ofCommits?(kysely: Queries): StatementsOfCommits
}

interface StatementsOfCommits {
  /**
   * Takes an array of `n`, `repository_id` and `sha` in JSON, and returns a row for each in the
   * order of `n`.
   */
  summaries: Prepared<
    { commits: string },
    StatusCounts & { failed: { context: string; targetUrl: string | null; failedAt: number }[] | null }
  >
  /** Takes an array in JSON. Returns a row for each commit with statuses. */
  states: Prepared<
    { repositoryId: number; shas: string },
    { sha: string; contexts: string[]; states: StatusState[] }
  >
  /**
   * Takes an array of commits and one of digests in JSON. Returns a row for each commit with
   * statuses: its contexts in order as JSON, or null if their digest is among those.
   */
  contexts: Prepared<
    { repositoryId: number; shas: string; known: string },
    { sha: string; digest: string; contexts: string | null }
  >
}

/** A row refers to one that does not exist. Nothing was written. */
export class ForeignKeyViolation extends Error {
  override readonly name = 'ForeignKeyViolation'
}

/**
 * A row has a value that another one has. Nothing was written. Only where transactions that write run at
 * once (see `serialWrites`): elsewhere, what one has looked for stays missing until its end.
 */
export class UniqueViolation extends Error {
  override readonly name = 'UniqueViolation'
}

/** The database does not let the role of its URL run the statement, which it may at any time. */
export class PermissionDenied extends Unavailable {
  override readonly name = 'PermissionDenied'
}

/** The database is unreachable, full or locked for too long; trying again later may help. */
export class StoreUnavailable extends Unavailable {
  override readonly name: string = 'StoreUnavailable'
}

/** A write waited for longer than it may, mostly for a lock. Nothing was written. */
export class WrittenTooLate extends StoreUnavailable {
  override readonly name = 'WrittenTooLate'
}
