import type { CacheOptions, LimitedWrite } from '../engine.ts'
import type { Prepared } from '../prepared.ts'
import type { Connection } from './connection.ts'
import { retryWhileBusy } from './driver-errors.ts'
import { GroupCapacity } from './group-capacity.ts'
import { RowCache } from './row-cache.ts'
import { commitTogether, type Outcome, type RunStatement } from './transaction.ts'

/*
 * The cache of rows and the group commit follow one schedule, once per turn of Node's event loop:
 *
 *   poll phase    requests arrive and call read()
 *       │
 *       ▼
 *   LOOK          has another connection committed since the last look? (PRAGMA data_version)
 *       │         yes: clear the cache
 *       ▼
 *   READ          everything that waited for the look continues. Reads are answered from the cache or by a query, and
 *       │         need no other look in this turn: their callers arrived before it.
 *       ▼
 *   COMMIT        all writes that these requests made: one transaction, one sync to disk
 *       │
 *       ▼
 *   INVALIDATE    drop the cached rows that the writes changed, then fulfil their promises
 *
 * LOOK and COMMIT are two callbacks of setImmediate that are queued together. Between them Node runs all promise callbacks
 * and process.nextTick(), but no I/O, so no new request can begin there. A request that arrives later waits for the next
 * look: a token that was revoked before it was sent is never found in the cache.
 *
 * The cache is never stale:
 * - Commits of other connections, in this process and in others, change `data_version`. Kysely's are among them, because
 *   Kysely has a connection of its own (see engine.ts). Its statements also end READ, so that the caller that made them
 *   sees their effect at once.
 * - Commits of this connection do not change it. They name the key that they invalidate, or nothing: then all is cleared.
 * - Rows that are read after the look may be newer than it. Then `data_version` has changed by the next look.
 *
 * A read returns the same array as before while nothing has changed. Callers may cache by its identity.
 */

/** Approximate bytes of memory for the rows of large results. They have their own cache, so they evict no others. */
const LARGE_RESULTS = 32 * 1024 * 1024

interface PendingWrite {
  run: (run: RunStatement) => unknown[]
  invalidates: string | undefined
  resolve(rows: unknown[]): void
  reject(error: unknown): void
}

interface FileChecks {
  /** Called with each look. When it throws, nothing is read. */
  beforeRead(): void
  /** Called after each commit. When it throws, the writes of this commit are not acknowledged. */
  afterCommit(): void
}

/** Reads through a cache and commits in groups, on one connection that nothing else writes on. */
export class Turn {
  readonly #connection: Connection
  readonly #checks: FileChecks
  readonly #readVersion: () => unknown
  readonly #cache = new RowCache()
  readonly #largeResults = new RowCache(LARGE_RESULTS)
  /** Large results that are being read, by key. Removed when an invalidation makes them stale. */
  readonly #largeReads = new Map<string, Promise<unknown[]>>()
  readonly #capacity = new GroupCapacity()
  #version: unknown
  #look: Promise<void> | null = null
  /** Between LOOK and COMMIT. */
  #isReading = false
  #writes: PendingWrite[] = []
  #committing: Promise<void> | null = null

  constructor(connection: Connection, checks: FileChecks) {
    this.#connection = connection
    this.#checks = checks
    const version = connection.prepare('pragma data_version').pluck()
    this.#readVersion = () => version.get()
  }

  /**
   * Returns the cached rows, or runs the query and caches its rows.
   *
   * @throws StoreUnavailable
   */
  async read<Row>(query: () => Row[], { key, variant = '', cacheable }: CacheOptions<Row>): Promise<Row[]> {
    if (!this.#isReading) await this.#nextLook()
    const cached = this.#cache.get<Row>(key, variant)
    if (cached !== undefined) return cached
    return retryWhileBusy(() => {
      const rows = query()
      if (cacheable === undefined || cacheable(rows)) this.#cache.set(key, variant, rows)
      return rows
    })
  }

  /**
   * Like `read`, for a query that takes several turns. Callers that ask for the same key meanwhile share its result.
   *
   * @param admit awaited before the query is run; not called when the rows are cached
   */
  async readLarge<Row>(
    query: () => Promise<Row[]>,
    key: string,
    admit?: () => Promise<void>,
  ): Promise<Row[]> {
    if (!this.#isReading) await this.#nextLook()
    const cached = this.#largeResults.get<Row>(key)
    if (cached !== undefined) return cached
    await admit?.()
    const shared = this.#largeResults.get<Row>(key) ?? this.#largeReads.get(key)
    // A key belongs to one query, so the rows have its type.
    if (shared !== undefined) return (await shared) as Row[]
    const reading = query()
    this.#largeReads.set(key, reading)
    const isCurrent = () => this.#largeReads.get(key) === reading
    try {
      const rows = await reading
      if (isCurrent()) this.#largeResults.set(key, '', rows)
      return rows
    } finally {
      if (isCurrent()) this.#largeReads.delete(key)
    }
  }

  /**
   * Runs statements in the next group commit.
   *
   * @param invalidates the key of the only cached rows that they can change; undefined: they may change any
   * @returns the rows, once they are on disk
   * @throws ForeignKeyViolation, StoreUnavailable and other errors of the driver
   */
  write(run: (run: RunStatement) => unknown[], invalidates?: string): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      // For writes that no look precedes in this turn.
      if (this.#writes.length === 0) setImmediate(() => this.#commit())
      this.#writes.push({ run, invalidates, resolve, reject })
    })
  }

  /**
   * Writes a row of a group whose size is limited.
   *
   * @param group names the group; also the key that the write invalidates
   * @returns the row; none if the group is full and does not contain it
   */
  writeLimited<Params, Row>(
    write: LimitedWrite<Params, Row>,
    params: Params,
    group: string,
  ): Promise<unknown[]> {
    return this.write((run) => {
      // `prepare` derived the type of the rows from the same query.
      const execute = <R>({ sql, bind }: Prepared<Params, R>) => run(sql, bind(params)) as R[]
      if (!this.#capacity.isKnown(group)) {
        const [counted] = execute(write.count)
        this.#capacity.set(group, write.limit - (counted?.rows ?? 0))
      }
      if (this.#capacity.isFull(group)) return execute(write.replace)
      const rows = execute(write.upsert)
      if (rows.some((row) => write.isNew(row, params))) this.#capacity.take(group)
      return rows
    }, group)
  }

  /** Makes the next read wait for another look. To be called when another connection of this process may have committed. */
  requireLook(): void {
    this.#isReading = false
  }

  /** Waits until all writes are done. */
  async idle(): Promise<void> {
    while (this.#writes.length > 0 || this.#committing) {
      this.#commit()
      await this.#committing
    }
  }

  #nextLook(): Promise<void> {
    this.#look ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        this.#look = null
        try {
          this.#checks.beforeRead()
        } catch (error) {
          return reject(error)
        }
        this.#clearIfChanged()
        this.#isReading = true
        resolve()
      })
      setImmediate(() => {
        this.#isReading = false
        this.#commit()
      })
    })
    return this.#look
  }

  /** Clears everything if another connection has committed. */
  #clearIfChanged(): void {
    const version = this.#foreignChanges()
    // If the counter cannot be read, bypass the cache.
    if (version === undefined || version !== this.#version) this.#clear()
    this.#version = version
  }

  /** Returns a value that changes when another connection commits; undefined if it cannot be read. */
  #foreignChanges(): unknown {
    try {
      return this.#readVersion()
    } catch {
      return undefined
    }
  }

  #commit(): void {
    if (this.#writes.length > 0) this.#committing ??= this.#commitAll()
  }

  async #commitAll(): Promise<void> {
    while (this.#writes.length > 0) {
      const group = this.#writes
      this.#writes = []
      try {
        acknowledge(group, await this.#commitGroup(group))
      } catch (error) {
        for (const { reject } of group) reject(error)
      }
    }
    this.#committing = null
  }

  async #commitGroup(group: readonly PendingWrite[]): Promise<Outcome[]> {
    const outcomes = await retryWhileBusy(() =>
      commitTogether(
        this.#connection,
        group.map(({ run }) => run),
        {
          // The capacities were counted before others could write.
          onBegin: () => this.#clearIfChanged(),
          // They include rows that were rolled back.
          onRollback: () => this.#capacity.clear(),
        },
      ),
    )
    for (const { invalidates } of group) this.#invalidate(invalidates)
    this.#checks.afterCommit()
    return outcomes
  }

  #invalidate(key: string | undefined): void {
    if (key === undefined) {
      this.#clear()
      return
    }
    this.#cache.drop(key)
    this.#largeResults.drop(key)
    this.#largeReads.delete(key)
  }

  #clear(): void {
    this.#cache.clear()
    this.#largeResults.clear()
    this.#largeReads.clear()
    this.#capacity.clear()
  }
}

function acknowledge(group: readonly PendingWrite[], outcomes: readonly Outcome[]): void {
  group.forEach(({ resolve, reject }, index) => {
    const outcome = outcomes[index]
    if (outcome !== undefined && 'error' in outcome) reject(outcome.error)
    else resolve(outcome?.rows ?? [])
  })
}
