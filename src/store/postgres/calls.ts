import { Batches } from '../../schedule/batches.ts'
import { IsolatedKeys } from '../../schedule/isolated-keys.ts'
import { ownTurn } from '../../schedule/own-turn.ts'
import { type OrderedCall, RowOrder } from '../../schedule/row-order.ts'
import { StoreUnavailable } from '../engine.ts'
import type { Prepared } from '../prepared.ts'
import { MANY_ROWS } from '../steps.ts'
import { CallStatements, MAX_ROWS } from './call-statements.ts'
import { type Connections, MOST_WAITING, type Session, type Use } from './connections.ts'
import { isLockTimeout, isRolledBack, retry, translateError } from './driver-errors.ts'

/*
 * The steps of a call. Each has its own number of statements under way, so that none waits for what
 * another one is slow at:
 *
 *   call ──▶ shared ────── rolled back, or ──▶ alone ──── waits for a lock ──▶ patient
 *    │       up to MAX_CALLS  more than        one call   for longer than      one call,
 *    │       in a statement   MAX_ROWS rows    each       LOCK_TIMEOUT         until its time is up
 *    │                                          ▲             ▲
 *    └── its key was slow or failed ────────────┴─────────────┘
 *        within the last ISOLATION              reads         writes
 *
 * A call that might make others of its statement fail, as its time is almost up, leaves for `alone`
 * when the statement begins.
 *
 * A statement of reads has a maximum number of rows: calls that it cuts off share the next one. Where
 * several calls cannot share a statement, a call is made at once.
 *
 * A write waits for locks for at most LOCK_TIMEOUT in the first two steps. Reads only wait for
 * locks of tables, for which all others of their statement wait too, so `alone` is their last step.
 *
 * Only a statement that was certainly rolled back is followed by another one for the same call.
 * After a lost connection or a time limit it may have been committed, so all calls of the statement
 * fail.
 *
 * A call is answered once, when its rows or its error are known or its time is up. It ends when no
 * statement works on it any more: until then no other call writes its row.
 */

/** Maximum number of calls that share a statement. */
const MAX_CALLS = 64
/** Maximum number of shared statements under way. With more, fewer calls share each. */
const MAX_SHARED = 2
/**
 * Milliseconds after which a shared statement no longer keeps others from beginning, and a write no
 * longer waits for a lock together with others.
 */
export const LOCK_TIMEOUT = 250
/** Milliseconds for which calls are made alone after one of the same key failed or was slow. */
const ISOLATION = 1_000

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
  /** What its rows depend on, or what it changes. */
  readonly key: string | undefined
  readonly since: number
  resolve(rows: Row[]): void
  reject(error: unknown): void
}

/** All calls of one statement. */
export class StatementCalls<Params, Row> {
  readonly #statements: CallStatements<Params, Row>
  readonly #use: Use
  readonly #options: CallOptions
  // The steps.
  readonly #shared: Batches<Call<Params, Row>>
  readonly #alone: Batches<Call<Params, Row>>
  readonly #patient: Batches<Call<Params, Row>>
  /** Maximum number of calls of the next shared statement: fewer while they have too many rows. */
  #maxCalls = MAX_CALLS
  readonly #order = new RowOrder<Call<Params, Row>>()
  /** In order of arrival. */
  readonly #unanswered = new Set<Call<Params, Row>>()
  /** Keys whose calls are not shared. */
  readonly #isolated = new IsolatedKeys(ISOLATION)
  #expiry: NodeJS.Timeout | undefined

  constructor(query: Prepared<Params, Row>, use: Use, options: CallOptions) {
    this.#statements = new CallStatements(query)
    this.#use = use
    this.#options = options
    const isNext = (call: Call<Params, Row>, batch: readonly Call<Params, Row>[]) =>
      this.#order.isNext(call, batch)
    this.#shared = new Batches({
      size: MAX_CALLS,
      width: MAX_SHARED,
      slowAfter: LOCK_TIMEOUT,
      mayJoin: (call, batch) => batch.length < this.#maxCalls && isNext(call, batch),
      run: (batch) => this.#makeShared(batch),
    })
    const half = Math.max(1, Math.floor(options.connections.share(use) / 2))
    const single = { size: 1, width: half, mayJoin: isNext }
    this.#alone = new Batches({ ...single, run: ([call]) => this.#makeAlone(call) })
    this.#patient = new Batches({ ...single, run: ([call]) => this.#makePatiently(call) })
  }

  /**
   * Makes a call. Returns its rows.
   *
   * @param key calls with the same key are isolated together
   * @throws StoreUnavailable, ForeignKeyViolation, other errors of the database
   */
  call(params: Params, key: string | undefined): Promise<Row[]> {
    const { promise, resolve, reject } = Promise.withResolvers<Row[]>()
    if (this.#unanswered.size >= MOST_WAITING) {
      reject(new StoreUnavailable(`PostgreSQL: too many calls of a ${this.#use} are waiting`))
      return promise
    }
    const row = this.#statements.rowOf(params)
    const call = { params, key, row, since: performance.now(), resolve, reject }
    this.#unanswered.add(call)
    this.#order.add(call)
    this.#expireInTime()
    if (!this.#statements.mayBeShared) void this.#make(call)
    else if (!this.#isolated.has(key)) this.#shared.add(call)
    else if (this.#statements.areWrites) this.#patient.add(call)
    else this.#alone.add(call)
    return promise
  }

  /** The first step. */
  async #makeShared(batch: Call<Params, Row>[]): Promise<void> {
    const calls: Call<Params, Row>[] = []
    for (const call of batch) {
      if (!this.#isWanted(call)) continue
      // A later call of the same row does not overtake one that is made alone.
      const isShared = this.#statements.mayShare(call.params) && this.#order.isNext(call, calls)
      if (isShared) calls.push(call)
      else this.#alone.add(call)
    }
    if (calls.length < 2) return this.#makeAlone(calls[0])
    try {
      const params = calls.map((call) => call.params)
      const results = await this.#send(calls, (session) => this.#statements.several(session, params))
      if (results) this.#takeResults(calls, results)
      else for (const call of calls) void this.#make(call)
    } catch (error) {
      if (isRolledBack(error)) for (const call of calls) this.#alone.add(call)
      else for (const call of calls) this.#fail(call, error)
    }
  }

  /** Answers the calls of a shared statement, except those that had no room in it. */
  #takeResults(calls: readonly Call<Params, Row>[], results: readonly Row[][]): void {
    const isCut = results.length < calls.length
    this.#maxCalls = isCut ? results.length : Math.min(MAX_CALLS, this.#maxCalls + 1)
    for (const [index, call] of calls.entries()) {
      const rows = results[index]
      if (!rows) this.#shared.add(call)
      else if (rows.length <= MAX_ROWS) this.#answer(call, rows)
      else {
        this.#isolated.add(call.key)
        this.#alone.add(call)
      }
    }
  }

  /** The second step, and the last one of a read. */
  async #makeAlone(call: Call<Params, Row> | undefined): Promise<void> {
    if (!call || !this.#isWanted(call)) return
    if (!this.#statements.areWrites) return this.#make(call)
    try {
      const send = () => this.#send([call], (session) => this.#statements.oneBriefly(session, call.params))
      this.#answer(call, await retry(send))
    } catch (error) {
      if (isRolledBack(error)) this.#isolated.add(call.key)
      if (isLockTimeout(error)) this.#patient.add(call)
      else this.#fail(call, error)
    }
  }

  /** The last step of a write. */
  async #makePatiently(call: Call<Params, Row> | undefined): Promise<void> {
    if (!call || !this.#isWanted(call)) return
    const since = performance.now()
    await this.#make(call)
    if (performance.now() - since > LOCK_TIMEOUT) this.#isolated.add(call.key)
  }

  /** Makes a call by the statement of a single one, however long that takes. */
  async #make(call: Call<Params, Row>): Promise<void> {
    try {
      const send = () => this.#send([call], (session) => this.#statements.one(session, call.params))
      const rows = await retry(send)
      if (rows.length > MAX_ROWS) this.#isolated.add(call.key)
      if (rows.length >= MANY_ROWS) await ownTurn()
      this.#answer(call, rows)
    } catch (error) {
      if (isRolledBack(error)) this.#isolated.add(call.key)
      this.#fail(call, error)
    }
  }

  /** Runs a statement of calls on a connection. @throws untranslated errors of the database */
  async #send<Result>(
    calls: readonly Call<Params, Row>[],
    run: (session: Session) => Promise<Result>,
  ): Promise<Result> {
    const { connections, onSent } = this.#options
    const session = await connections.connect(this.#use, calls.length)
    try {
      const now = performance.now()
      onSent(calls.map(({ since }) => now - since))
      return await run(session)
    } finally {
      session.release()
    }
  }

  /** Returns whether a call still waits for its answer. It ends if it does not. */
  #isWanted(call: Call<Params, Row>): boolean {
    const isWanted = this.#unanswered.has(call)
    if (!isWanted) this.#end(call)
    return isWanted
  }

  #answer(call: Call<Params, Row>, rows: Row[]): void {
    if (this.#unanswered.delete(call)) call.resolve(rows)
    this.#end(call)
  }

  #fail(call: Call<Params, Row>, error: unknown): void {
    if (this.#unanswered.delete(call)) call.reject(translateError(error))
    this.#end(call)
  }

  /** Lets the next call of the same row begin. */
  #end(call: Call<Params, Row>): void {
    if (!this.#order.remove(call)) return
    for (const step of [this.#shared, this.#alone, this.#patient]) step.schedule()
  }

  /** Sets the timer for the calls whose time is up first. */
  #expireInTime(): void {
    const { timeout } = this.#options
    const [first] = this.#unanswered
    if (timeout === 0 || this.#expiry || !first) return
    const left = first.since + timeout - performance.now()
    this.#expiry = setTimeout(() => this.#expire(timeout), Math.max(0, left)).unref()
  }

  /** Answers calls whose time is up. They have not ended: it is not known what they did. */
  #expire(timeout: number): void {
    this.#expiry = undefined
    for (const call of this.#unanswered) {
      if (performance.now() - call.since < timeout) break
      this.#unanswered.delete(call)
      call.reject(new StoreUnavailable(`PostgreSQL: no answer within ${timeout} ms`))
    }
    this.#expireInTime()
  }
}
