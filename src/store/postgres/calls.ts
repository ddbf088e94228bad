import { Batches } from '../../schedule/batches.ts'
import { ownTurn } from '../../schedule/own-turn.ts'
import { type OrderedCall, RowOrder } from '../../schedule/row-order.ts'
import { Suspects } from '../../schedule/suspects.ts'
import { StoreUnavailable } from '../engine.ts'
import type { Prepared, Statement } from '../prepared.ts'
import { MANY_ROWS } from '../steps.ts'
import { type BatchStatement, MAX_ROWS, readingBatch, rowsOfCalls, writingBatch } from './batch-statement.ts'
import { type Connections, MOST_WAITING, type Session, type Use } from './connections.ts'
import { isLockTimeout, isRolledBack, retry, translateError } from './driver-errors.ts'

/*
 * How a call is made. Each step has its own number of statements under way, so that none waits for
 * what another one is slow at:
 *
 *   call ──▶ together ─── rolled back, or ──▶ alone ──── waits for a lock ──▶ patient
 *    │       up to SIZE   more than           one call   for longer than      one call,
 *    │       calls        MAX_ROWS rows       each       LOCK_TIMEOUT         until its time is up
 *    │                                          ▲             ▲
 *    └── its key was slow or failed ────────────┴─────────────┘
 *        within the last SUSPICION
 *
 * A batch of reads has at most MAX_BATCH_ROWS rows: calls that it cuts off wait for the next one.
 *
 * A report waits for locks for at most LOCK_TIMEOUT in the first two steps. Reads only wait for
 * locks of tables, for which all others of their batch wait too, so `alone` is their last step.
 *
 * Only a statement that was certainly rolled back is followed by another one for the same call.
 * After a lost connection or a time limit it may have been committed, so all calls of the batch
 * fail.
 */

/** Maximum number of calls of a batch. */
const SIZE = 64
/** Maximum number of batches of a statement under way. With more, batches are smaller. */
const WIDTH = 2
/**
 * Milliseconds after which a batch no longer keeps others from beginning, and a report no longer
 * waits for a lock together with others.
 */
export const LOCK_TIMEOUT = 250
/** Milliseconds for which calls are made alone after one of the same key failed or was slow. */
const SUSPICION = 1_000

/** What calls are made with. */
export interface CallOptions {
  connections: Connections
  /** Milliseconds from the arrival of a call until it fails; 0 for no limit. */
  timeout: number
  /** Called for each statement with the milliseconds for which each of its calls has waited. */
  onSent(waits: number[]): void
}

interface Call<Params, Row> extends OrderedCall<Call<Params, Row>> {
  readonly params: Params
  /** What its rows depend on, or what it changes; see `suspects`. */
  readonly key: string | undefined
  readonly since: number
  resolve(rows: Row[]): void
  reject(error: unknown): void
}

/** All calls of one statement. */
export class StatementCalls<Params, Row> {
  readonly #query: Prepared<Params, Row>
  readonly #use: Use
  readonly #options: CallOptions
  /** The statement of several calls; undefined: not known yet; null: there is none. */
  #batch: BatchStatement<Params> | null | undefined
  readonly #together: Batches<Call<Params, Row>>
  readonly #alone: Batches<Call<Params, Row>>
  readonly #patient: Batches<Call<Params, Row>>
  /** Maximum number of calls of the next batch: fewer while batches have too many rows. */
  #size = SIZE
  readonly #order = new RowOrder<Call<Params, Row>>()
  /** Calls without an answer, in order of arrival. */
  readonly #unanswered = new Set<Call<Params, Row>>()
  /** Keys whose calls are made alone. */
  readonly #suspects = new Suspects(SUSPICION)
  #expiry: NodeJS.Timeout | undefined

  constructor(query: Prepared<Params, Row>, use: Use, options: CallOptions) {
    this.#query = query
    this.#use = use
    this.#options = options
    this.#batch = writingBatch(query) ?? (query.ofBatch ? undefined : null)
    const mayJoin = (call: Call<Params, Row>, batch: readonly Call<Params, Row>[]) =>
      this.#order.isNext(call, batch)
    const half = Math.max(1, Math.floor(options.connections.share(use) / 2))
    const single = { size: 1, width: half, mayJoin }
    this.#together = new Batches({
      size: SIZE,
      width: WIDTH,
      slowAfter: LOCK_TIMEOUT,
      mayJoin: (call, batch) => batch.length < this.#size && mayJoin(call, batch),
      run: (batch) => this.#runTogether(batch),
    })
    this.#alone = new Batches({ ...single, run: (batch) => this.#makeAlone(batch) })
    this.#patient = new Batches({ ...single, run: (batch) => this.#makePatiently(batch) })
  }

  /**
   * @param key calls with the same key are suspected of failing together
   * @throws StoreUnavailable, ForeignKeyViolation, other errors of the database
   */
  call(params: Params, key: string | undefined): Promise<Row[]> {
    const { promise, resolve, reject } = Promise.withResolvers<Row[]>()
    if (this.#unanswered.size >= MOST_WAITING) {
      reject(new StoreUnavailable(`PostgreSQL: too many calls of a ${this.#use} are waiting`))
      return promise
    }
    const row = this.#query.batch?.rowOf(params)
    const call = { params, key, row, since: performance.now(), resolve, reject }
    this.#unanswered.add(call)
    this.#order.add(call)
    this.#expire()
    if (this.#batch === null) void this.#makeOne(call)
    else if (!this.#suspects.has(key)) this.#together.add(call)
    else (this.#isWriting ? this.#patient : this.#alone).add(call)
    return promise
  }

  get #isWriting(): boolean {
    return this.#query.batch !== undefined
  }

  #runTogether(batch: Call<Params, Row>[]): Promise<void> {
    const calls = this.#current(batch)
    return calls.length > 1 ? this.#makeTogether(calls) : this.#makeAlone(calls)
  }

  async #makeTogether(calls: Call<Params, Row>[]): Promise<void> {
    try {
      const results = await this.#send(calls, (session) => this.#sendBatch(session, calls))
      if (results)
        this.#size = results.length < calls.length ? results.length : Math.min(SIZE, this.#size + 1)
      for (const [index, call] of calls.entries()) {
        const rows = results?.[index]
        if (!results) void this.#makeOne(call)
        else if (!rows) this.#together.add(call)
        else if (rows.length <= MAX_ROWS) this.#end(call, () => call.resolve(rows))
        else {
          this.#suspects.add(call.key)
          this.#alone.add(call)
        }
      }
    } catch (error) {
      if (isRolledBack(error)) for (const call of calls) this.#alone.add(call)
      else for (const call of calls) this.#fail(call, error)
    }
  }

  async #makeAlone(batch: Call<Params, Row>[]): Promise<void> {
    const [call] = this.#current(batch)
    if (!call) return
    const single = this.#query.batch?.single
    if (!single) return this.#makeOne(call)
    try {
      const rows = await retry(() => this.#send([call], (session) => this.#sendOne(session, call, single)))
      this.#end(call, () => call.resolve(rows))
    } catch (error) {
      if (isRolledBack(error)) this.#suspects.add(call.key)
      if (isLockTimeout(error)) this.#patient.add(call)
      else this.#fail(call, error)
    }
  }

  async #makePatiently(batch: Call<Params, Row>[]): Promise<void> {
    const [call] = this.#current(batch)
    if (!call) return
    const since = performance.now()
    await this.#makeOne(call)
    if (performance.now() - since > LOCK_TIMEOUT) this.#suspects.add(call.key)
  }

  /** Makes a call by the statement of a single one. */
  async #makeOne(call: Call<Params, Row>): Promise<void> {
    try {
      const rows = await retry(() => this.#send([call], (session) => this.#sendOne(session, call)))
      if (rows.length > MAX_ROWS) this.#suspects.add(call.key)
      if (rows.length >= MANY_ROWS) await ownTurn()
      this.#end(call, () => call.resolve(rows))
    } catch (error) {
      if (isRolledBack(error)) this.#suspects.add(call.key)
      this.#fail(call, error)
    }
  }

  /** Runs statements of calls on a connection. @throws untranslated errors of the database */
  async #send<Result>(
    calls: readonly Call<Params, Row>[],
    work: (session: Session) => Promise<Result>,
  ): Promise<Result> {
    const { connections, onSent } = this.#options
    const session = await connections.connect(this.#use, calls.length)
    try {
      const now = performance.now()
      onSent(calls.map(({ since }) => now - since))
      return await work(session)
    } finally {
      session.release()
    }
  }

  async #sendOne(
    session: Session,
    { params }: Call<Params, Row>,
    { name, sql, bind }: Statement<Params> = this.#query,
  ): Promise<Row[]> {
    const { rows } = await session.run({ name, text: sql, values: bind(params) })
    // The statement determines the rows; `prepare` inferred their type from the same query.
    return rows as Row[]
  }

  /** Returns the rows of each call; undefined if there is no statement for several calls. */
  async #sendBatch(session: Session, calls: readonly Call<Params, Row>[]): Promise<Row[][] | undefined> {
    const [first] = calls
    if (this.#batch === undefined && first) this.#batch = await this.#prepareBatch(session, first)
    if (!this.#batch) return undefined
    const { name, sql, bind, leading } = this.#batch
    const values = bind(calls.map(({ params }) => params))
    const result = await session.runForArrays({ name, text: sql, values, rowMode: 'array' })
    return rowsOfCalls<Row>(result, leading, calls.length)
  }

  /** Returns the statement of several calls, which needs the types that a single one has. */
  async #prepareBatch(session: Session, call: Call<Params, Row>): Promise<BatchStatement<Params> | null> {
    const { name, ofBatch } = this.#query
    // Its rows are not used: the call reads them again with the others.
    await this.#sendOne(session, call)
    const text = 'select parameter_types::text[] as types from pg_prepared_statements where name = $1'
    const { rows } = await session.run<{ types: string[] }>({ text, values: [name] })
    return (ofBatch && readingBatch(name, ofBatch(), rows[0]?.types ?? [])) ?? null
  }

  /** Removes calls that have waited for too long, before they are made. */
  #current(calls: Call<Params, Row>[]): Call<Params, Row>[] {
    return calls.filter((call) => {
      const isCurrent = this.#unanswered.has(call)
      if (!isCurrent) this.#end(call, () => {})
      return isCurrent
    })
  }

  #fail(call: Call<Params, Row>, error: unknown): void {
    this.#end(call, () => call.reject(translateError(error)))
  }

  /** Ends a call, and answers it if it has no answer yet. */
  #end(call: Call<Params, Row>, answer: () => void): void {
    if (this.#unanswered.delete(call)) answer()
    if (!this.#order.remove(call)) return
    for (const step of [this.#together, this.#alone, this.#patient]) step.schedule()
  }

  /** Answers calls whose time is up. Where it is not known what they did, nothing else may. */
  #expire(): void {
    const { timeout } = this.#options
    if (timeout === 0 || this.#expiry) return
    const [first] = this.#unanswered
    if (!first) return
    const end = () => {
      this.#expiry = undefined
      for (const call of this.#unanswered) {
        if (performance.now() - call.since < timeout) break
        this.#unanswered.delete(call)
        call.reject(new StoreUnavailable(`PostgreSQL: no answer within ${timeout} ms`))
      }
      this.#expire()
    }
    this.#expiry = setTimeout(end, Math.max(0, first.since + timeout - performance.now())).unref()
  }
}
