import { hash } from 'node:crypto'
import type { QueryConfig } from 'pg'
import { StoreUnavailable } from '../engine.ts'
import { type Connections, MOST_WAITING } from './connections.ts'
import { retry } from './driver-errors.ts'

/** Maximum number of writes in one transaction, so that other processes do not wait long for the lock. */
const GROUP = 100

type Rows = unknown[]

interface Write {
  statement: QueryConfig
  resolve(rows: Rows): void
  reject(error: unknown): void
}

/**
 * Runs writes one after the other if they use the same lock, across all processes.
 *
 * A write that depends on the number of rows must not read it before concurrent transactions have committed. Each
 * transaction therefore takes an advisory lock before its first statement, and holds it until it has committed.
 *
 * Writes of this process that wait for the same lock share a transaction, so that they need one connection and one sync to
 * disk.
 */
export class LockedWrites {
  readonly #connections: Connections
  readonly #waiting = new Map<string, Write[]>()

  constructor(connections: Connections) {
    this.#connections = connections
  }

  /** Runs a statement under the lock. @throws StoreUnavailable; the database's own error if the statement is wrong */
  run(lock: string, statement: QueryConfig): Promise<Rows> {
    const waiting = this.#waiting.get(lock) ?? []
    if (waiting.length >= MOST_WAITING) {
      return Promise.reject(new StoreUnavailable('PostgreSQL: too many writes are waiting for the same lock'))
    }
    return new Promise((resolve, reject) => {
      waiting.push({ statement, resolve, reject })
      if (this.#waiting.has(lock)) return
      this.#waiting.set(lock, waiting)
      this.#drain(lock, waiting)
    })
  }

  async #drain(lock: string, waiting: Write[]): Promise<void> {
    while (waiting.length > 0) {
      const group = waiting.splice(0, GROUP)
      const unavailable = await this.#runGroup(lock, group)
      // The others would fail for the same reason, after waiting even longer.
      if (unavailable) for (const { reject } of waiting.splice(0)) reject(unavailable)
    }
    this.#waiting.delete(lock)
  }

  /** Settles all writes of the group. @returns the error if the database is unavailable */
  async #runGroup(lock: string, group: Write[]): Promise<StoreUnavailable | undefined> {
    try {
      const outcomes = await retry(() => this.#transaction(lock, group))
      group.forEach(({ resolve }, index) => {
        resolve(outcomes[index] ?? [])
      })
    } catch (error) {
      const unavailable = error instanceof StoreUnavailable ? error : undefined
      // A wrong statement aborts the transaction of all, so run each in its own.
      if (group.length > 1 && !unavailable) for (const write of group) await this.#runGroup(lock, [write])
      else for (const { reject } of group) reject(error)
      return unavailable
    }
  }

  async #transaction(lock: string, group: readonly Write[]): Promise<Rows[]> {
    const session = await this.#connections.connect('write')
    try {
      // One message saves a round trip.
      await session.run({ text: `begin; select pg_advisory_xact_lock(${lockNumber(lock)})` })
      const outcomes: Rows[] = []
      for (const { statement } of group) outcomes.push((await session.run(statement)).rows)
      await session.run({ text: 'commit' })
      return outcomes
    } catch (error) {
      // Fails at once on a lost connection.
      await session.run({ text: 'rollback' }).catch(() => {})
      throw error
    } finally {
      session.release()
    }
  }
}

/** Returns the key of the advisory lock. In case of a collision, unrelated writes just wait for each other. */
function lockNumber(lock: string): bigint {
  return hash('sha256', lock, 'buffer').readBigInt64BE()
}
