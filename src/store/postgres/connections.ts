import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely'
import { type ClientBase, Pool, type PoolClient, type QueryConfig, type QueryResult, types } from 'pg'
import { FairQueue, QueueFull } from '../../util/fair-queue.ts'
import { type PoolFigures, StoreUnavailable } from '../engine.ts'
import { isLost, translateError } from './driver-errors.ts'

/** Milliseconds for a free connection, or for a new one to be made. */
const CONNECT_TIMEOUT = 3_000
/** Milliseconds by which the server gives up before this side does, so that the connection can be kept. */
const HEAD_START = 500
/** Milliseconds after which the server ends a transaction whose process has stopped within it. */
const IDLE_IN_TRANSACTION_TIMEOUT = 10_000
/** Milliseconds for which an unused connection is kept. */
const IDLE_TIMEOUT = 60_000
/** Callers that may wait for a connection, of each use, or for a lock: each of them holds a request in memory. */
export const MOST_WAITING = 5_000
const INT8 = 20

/**
 * What a connection is used for: a `read` or a `write` of the API and of git, or a `query` of Kysely, for pages and
 * administration.
 */
type Use = 'read' | 'write' | 'query'

/**
 * Connections of each use at a time, of `size` in all. Reads may use every one and have a fifth to themselves, so that
 * writes that wait for a lock, or slow pages, do not keep them waiting. With fewer than three there is none to reserve.
 */
function sharesOf(size: number): Record<Use, number> {
  const fifth = Math.max(1, Math.floor(size / 5))
  return { read: size, query: fifth, write: Math.max(1, size - 2 * fifth) }
}

export interface ConnectionOptions {
  url: string
  /** Most connections at a time. */
  size: number
  /** Milliseconds for one statement; 0: no limit. */
  timeout: number
}

/**
 * A bounded pool of connections which survives whatever happens to them. When one is lost, all that were open at that
 * moment are taken for lost: after a restart or a failover, trying them one after the other would take as many time-outs.
 */
export class Connections {
  readonly #pool: Pool
  readonly #queues: Record<Use, FairQueue>
  /** Counts up when connections are lost. */
  #epoch = 0
  readonly #epochs = new WeakMap<PoolClient, number>()
  #ended: Promise<void> | undefined

  constructor({ url, size, timeout }: ConnectionOptions) {
    const shares = sharesOf(size)
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
      // Every bigint here is a count, an id or a time: far below 2^53.
      types: { getTypeParser: (oid, format) => (oid === INT8 ? Number : types.getTypeParser(oid, format)) },
      onConnect: checkSession,
      ...(timeout > 0 && {
        query_timeout: timeout,
        statement_timeout: timeout - HEAD_START,
        idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT,
      }),
    })
    // The pool replaces a connection that is lost while unused; without listeners the process would end.
    this.#pool.on('error', () => this.#epoch++)
    this.#pool.on('connect', (client) => {
      this.#epochs.set(client, this.#epoch)
      client.on('error', () => {})
    })
  }

  /** @throws StoreUnavailable when none becomes free, or can be made, in time */
  async connect(use: Use): Promise<Session> {
    const leave = await this.#enter(use)
    try {
      for (;;) {
        const client = await this.#pool.connect()
        const epoch = this.#epochs.get(client)
        if (epoch === this.#epoch) {
          return new Session(client, { onLost: () => this.#lost(epoch), onRelease: leave })
        }
        client.release(true)
      }
    } catch (error) {
      leave()
      throw translateError(error)
    }
  }

  /** Waits for a connection to be left for the use. */
  async #enter(use: Use): Promise<() => void> {
    try {
      return await this.#queues[use].enter(use)
    } catch (error) {
      if (!(error instanceof QueueFull)) throw error
      throw new StoreUnavailable(`PostgreSQL: every connection for a ${use} is in use: ${error.message}`)
    }
  }

  get figures(): PoolFigures {
    const { totalCount, idleCount, waitingCount } = this.#pool
    const queued = Object.values(this.#queues).reduce((sum, { waiting }) => sum + waiting, 0)
    return { open: totalCount, idle: idleCount, waiting: waitingCount + queued }
  }

  /** Resolves when every connection is released and closed. */
  end(): Promise<void> {
    this.#ended ??= this.#pool.end()
    return this.#ended
  }

  #lost(epoch: number): void {
    if (epoch === this.#epoch) this.#epoch++
  }
}

/** All callers are one client: requests of all addresses take their turns in order of arrival. */
function queueFor(places: number): FairQueue {
  return new FairQueue({
    places,
    placesPerClient: places,
    waiting: MOST_WAITING,
    waitingPerClient: MOST_WAITING,
    timeout: CONNECT_TIMEOUT,
  })
}

/** Connections for Kysely. */
export class QueryPool implements PostgresPool {
  readonly options = {}
  readonly #connections: Connections

  constructor(connections: Connections) {
    this.#connections = connections
  }

  connect(): Promise<Session> {
    return this.#connections.connect('query')
  }

  end(): Promise<void> {
    return this.#connections.end()
  }
}

/** A connection while one caller has it to itself. Nothing more is sent on it once it is lost. */
export class Session implements PostgresPoolClient {
  readonly #client: PoolClient
  readonly #events: { onLost(): void; onRelease(): void }
  #fault: unknown

  constructor(client: PoolClient, events: { onLost(): void; onRelease(): void }) {
    this.#client = client
    this.#events = events
  }

  /**
   * Runs a statement.
   *
   * @throws the database's own error, or that of the lost connection; see `translateError`
   */
  async run(query: QueryConfig): Promise<QueryResult> {
    if (this.#fault !== undefined) throw this.#fault
    try {
      return await this.#client.query(query)
    } catch (error) {
      if (isLost(error)) {
        this.#fault = error
        this.#events.onLost()
      }
      throw error
    }
  }

  /** For Kysely. @throws StoreUnavailable; the database's own error when the statement is wrong */
  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>
  // biome-ignore lint/suspicious/noExplicitAny: one signature for both overloads; Kysely uses a cursor only where one is configured
  query(text: any, values: readonly unknown[] = []): any {
    return this.run({ text, values: [...values] }).catch((error: unknown) => {
      throw translateError(error)
    })
  }

  release(destroy = false): void {
    this.#client.release(destroy || this.#fault !== undefined)
    this.#events.onRelease()
  }
}

/**
 * Refuses a server that does not accept writes, such as a standby or a former primary, and sees to it that a commit is
 * on disk before it is acknowledged, whatever the server, the database or the role have as their default.
 */
async function checkSession(client: ClientBase): Promise<void> {
  const { rows } = await client.query(
    `select current_setting('transaction_read_only') as read_only,
      set_config('synchronous_commit',
        case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end,
        false) as synchronous_commit`,
  )
  const [session] = rows
  if (session.read_only !== 'off') throw new StoreUnavailable('PostgreSQL: the server accepts no writes')
  if (session.synchronous_commit === 'off')
    throw new StoreUnavailable('PostgreSQL: the server does not write durably: synchronous_commit is off')
}
