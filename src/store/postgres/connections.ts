import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely'
import {
  type ClientBase,
  Pool,
  type PoolClient,
  type QueryArrayConfig,
  type QueryArrayResult,
  type QueryConfig,
  type QueryResult,
  type QueryResultRow,
  types,
} from 'pg'
import { FairQueue, QueueFull } from '../../schedule/fair-queue.ts'
import { type PoolFigures, StoreUnavailable } from '../engine.ts'
import { checkOutsideTransaction } from '../transaction-context.ts'
import { isLost, isTimeout, translateError } from './driver-errors.ts'

/** Milliseconds to wait for a free connection, and to open a new one. */
const CONNECT_TIMEOUT = 3_000
/**
 * Milliseconds by which the server's time limit is shorter than the client's, so that the
 * connection survives it.
 */
const HEAD_START = 500
/**
 * Milliseconds after which the server ends an idle transaction, for example of a process that
 * hangs.
 */
const IDLE_IN_TRANSACTION_TIMEOUT = 10_000
/** Milliseconds after which an unused connection is closed. */
const IDLE_TIMEOUT = 60_000
/**
 * Maximum number of callers that wait for a connection, for each use: each holds a request in
 * memory.
 */
export const MOST_WAITING = 5_000
const INT8 = 20

/**
 * The use of a connection: a `read` or a `write` of the API and of git, or a `query` through
 * Kysely, for pages and administration.
 */
export type Use = 'read' | 'write' | 'query'

/**
 * Returns the maximum number of connections for each use, out of `size`. Reads may use all of them,
 * and a fifth is reserved for reads, so that they do not wait for slow pages or for writes that
 * wait for a lock. With fewer than three connections none can be reserved.
 */
function sharesOf(size: number): Record<Use, number> {
  const fifth = Math.max(1, Math.floor(size / 5))
  return { read: size, query: fifth, write: Math.max(1, size - 2 * fifth) }
}

/**
 * A bounded pool that replaces lost connections. When one is lost, all connections that were open
 * at that moment are considered lost: after a restart or a failover, each of them would otherwise
 * cost a timeout.
 */
export class Connections {
  readonly #pool: Pool
  readonly #shares: Record<Use, number>
  readonly #queues: Record<Use, FairQueue>
  /** Calls that wait with another one that is in a queue. */
  #waitingCalls = 0
  /**
   * Incremented when connections are lost. A connection is usable if it was opened in the current
   * epoch.
   */
  #epoch = 0
  readonly #epochs = new WeakMap<PoolClient, number>()
  #ended: Promise<void> | undefined

  /**
   * @param size maximum number of connections
   *
   * @param timeout milliseconds for one statement; 0 for no limit
   */
  constructor(url: string, size: number, timeout: number) {
    const shares = sharesOf(size)
    this.#shares = shares
    this.#queues = {
      read: queueFor(shares.read),
      write: queueFor(shares.write),
      query: queueFor(shares.query),
    }
    this.#pool = new Pool({
      connectionString: url,
      max: size,
      application_name: 'commit-status-server',
      connectionTimeoutMillis: CONNECT_TIMEOUT,
      idleTimeoutMillis: IDLE_TIMEOUT,
      keepAlive: true,
      // Every bigint is a count, an id or a time, far below 2^53.
      types: { getTypeParser: (oid, format) => (oid === INT8 ? Number : types.getTypeParser(oid, format)) },
      onConnect: checkSession,
      ...(timeout > 0 && {
        query_timeout: timeout,
        statement_timeout: timeout - HEAD_START,
        idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT,
      }),
    })
    // The pool replaces an idle connection that is lost. Without listeners the process would end.
    this.#pool.on('error', () => this.#epoch++)
    this.#pool.on('connect', (client) => {
      this.#epochs.set(client, this.#epoch)
      client.on('error', () => {})
    })
  }

  /** Returns the maximum number of connections of a use. */
  share(use: Use): number {
    return this.#shares[use]
  }

  /**
   * Returns a connection for a statement.
   *
   * @param calls number of calls that wait for it
   * @throws StoreUnavailable if none is available in time
   */
  async connect(use: Use, calls = 1): Promise<Session> {
    this.#waitingCalls += calls - 1
    try {
      return await this.#connect(use)
    } finally {
      this.#waitingCalls -= calls - 1
    }
  }

  async #connect(use: Use): Promise<Session> {
    const leave = await this.#queues[use].enter(use).catch((error: unknown) => {
      if (!(error instanceof QueueFull)) throw error
      throw new StoreUnavailable(`PostgreSQL: all connections for a ${use} are in use: ${error.message}`)
    })
    try {
      for (;;) {
        const client = await this.#pool.connect()
        const epoch = this.#epochs.get(client)
        const onLost = () => {
          if (epoch === this.#epoch) this.#epoch++
        }
        if (epoch === this.#epoch) return new Session(client, { onLost, onRelease: leave })
        client.release(true)
      }
    } catch (error) {
      leave()
      throw translateError(error, true)
    }
  }

  /** The pool that Kysely uses. */
  get queryPool(): PostgresPool {
    const connect = async () => {
      checkOutsideTransaction()
      return this.connect('query')
    }
    return { options: {}, connect, end: () => this.end() }
  }

  get figures(): PoolFigures {
    const { totalCount, idleCount, waitingCount } = this.#pool
    const queued = Object.values(this.#queues).reduce((sum, { waiting }) => sum + waiting, 0)
    return { open: totalCount, idle: idleCount, waiting: waitingCount + queued + this.#waitingCalls }
  }

  /** Resolves when every connection is released and closed. */
  end(): Promise<void> {
    this.#ended ??= this.#pool.end()
    return this.#ended
  }
}

/**
 * Returns whether two clients that are connected at the same time reach the same process of the
 * server, or one client two of them: so it is behind PgBouncer with `pool_mode = transaction`.
 *
 * @throws StoreUnavailable
 */
export async function sharesSessions(url: string): Promise<boolean> {
  const connections = new Connections(url, 2, CONNECT_TIMEOUT)
  const sessions: Session[] = []
  const processes = new Set<number | undefined>()
  const pairs = new Set<string>()
  try {
    while (sessions.length < 2) sessions.push(await connections.connect('read'))
    // A pooler gives out the connection that was used last, or takes turns: then the same client
    // gets another one the second time.
    for (const index of [0, 1, 1, 0, 0, 1]) {
      const result = await sessions[index]?.query<{ pid: number }>('select pg_backend_pid() as pid', [])
      const pid = result?.rows[0]?.pid
      processes.add(pid)
      pairs.add(`${index} ${pid}`)
    }
  } finally {
    for (const session of sessions) session.release()
    await connections.end()
  }
  return processes.size !== 2 || pairs.size !== 2
}

/** Returns a queue in order of arrival: all callers count as one client. */
function queueFor(slots: number): FairQueue {
  return new FairQueue({
    slots,
    slotsPerClient: slots,
    waiting: MOST_WAITING,
    waitingPerClient: MOST_WAITING,
    timeout: CONNECT_TIMEOUT,
  })
}

/** A connection in use by one caller. Sends nothing more once the connection is lost. */
export class Session implements PostgresPoolClient {
  readonly #client: PoolClient
  readonly #events: { onLost(): void; onRelease(): void }
  #error: unknown

  constructor(client: PoolClient, events: { onLost(): void; onRelease(): void }) {
    this.#client = client
    this.#events = events
  }

  /**
   * Runs a statement.
   *
   * @throws the untranslated error of the database or of the lost connection; see `translateError`
   */
  run<Row extends QueryResultRow>(query: QueryConfig): Promise<QueryResult<Row>> {
    return this.#run(() => this.#client.query<Row>(query))
  }

  /** As `run`; each row is an array of its columns. */
  runForArrays(query: QueryArrayConfig): Promise<QueryArrayResult> {
    return this.#run(() => this.#client.query(query))
  }

  async #run<Result>(query: () => Promise<Result>): Promise<Result> {
    if (this.#error !== undefined) throw this.#error
    try {
      return await query()
    } catch (error) {
      // After a timeout a new connection leads to the server that the address leads to now.
      if (isLost(error) || isTimeout(error)) this.#error = error
      if (isLost(error)) this.#events.onLost()
      throw error
    }
  }

  /**
   * Runs a statement of Kysely, whose interface has these two signatures. It uses cursors only if
   * the dialect is configured with a cursor class.
   *
   * @throws StoreUnavailable; the database's own error if the statement is wrong
   */
  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>
  query(
    statement: string | PostgresCursor<unknown>,
    values: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<unknown>> | PostgresCursor<unknown> {
    if (typeof statement !== 'string') throw new TypeError('cursors are not supported')
    const result = this.run({ text: statement, values: [...values] }).catch((error: unknown) => {
      throw translateError(error)
    })
    // Kysely's type lists the values of `command` that it looks at; pg's type is any string.
    return result as Promise<PostgresQueryResult<unknown>>
  }

  release(destroy = false): void {
    this.#client.release(destroy || this.#error !== undefined)
    this.#events.onRelease()
  }
}

/**
 * Rejects a server that does not accept writes, such as a standby or a former primary, and a
 * database that cannot store every character: a ref that git has moved would be without its event.
 * `SQL_ASCII` counts bytes, and so sorts and bounds texts in another way. Makes
 * commits durable before they are acknowledged, and lets each statement see what was committed
 * before it, whatever the defaults of the server, the database and the role are.
 */
async function checkSession(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ read_only: string; encoding: string; synchronous_commit: string }>(
    `select current_setting('transaction_read_only') as read_only, current_setting('server_encoding') as encoding,
      set_config('synchronous_commit',
        case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end,
        false) as synchronous_commit,
      set_config('default_transaction_isolation', 'read committed', false)`,
  )
  const [session] = rows
  if (session?.read_only !== 'off')
    throw new StoreUnavailable('PostgreSQL: the server does not accept writes')
  if (session.encoding !== 'UTF8')
    throw new StoreUnavailable(
      `PostgreSQL: the encoding of the database is ${session.encoding}, which cannot store every name and text. ` +
        `Use a database with the encoding UTF8: create database NAME template template0 encoding 'UTF8'`,
    )
  if (session.synchronous_commit === 'off')
    throw new StoreUnavailable('PostgreSQL: synchronous_commit is off, so commits would not be durable')
}
