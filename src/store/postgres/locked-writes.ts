import { hash } from 'node:crypto'
import type { QueryConfig } from 'pg'
import { StoreUnavailable } from '../engine.ts'
import { type Connections, MOST_WAITING } from './connections.ts'
import { retry } from './driver-errors.ts'

/** Writes in one transaction at most, so that others do not wait long for the lock. */
const GROUP = 100

type Rows = unknown[]

interface Write {
  statement: QueryConfig
  resolve(rows: Rows): void
  reject(error: unknown): void
}

/**
 * Writes that no other one with the same lock runs beside, in any process.
 *
 * A write that depends on rows which others add at the same time must not look before they have committed. Each transaction
 * holds an advisory lock from before its first look until after its commit. To make one sync of all that wait for the same
 * lock here, and to keep them from filling the pool, they share a transaction.
 */
export class LockedWrites {
  readonly #connections: Connections
  readonly #waiting = new Map<string, Write[]>()

  constructor(connections: Connections) {
    this.#connections = connections
  }

  /** @throws StoreUnavailable; the database's own error when a statement is wrong */
  run(lock: string, statement: QueryConfig): Promise<Rows> {
    const waiting = this.#waiting.get(lock) ?? []
    if (waiting.length >= MOST_WAITING) {
      return Promise.reject(new StoreUnavailable('PostgreSQL: too many writes wait for the same lock'))
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
      const away = await this.#runGroup(lock, group)
      // Whatever keeps these from being written keeps the others too: they have waited long enough.
      if (away) for (const { reject } of waiting.splice(0)) reject(away)
    }
    this.#waiting.delete(lock)
  }

  /** Settles all of the group. @returns why the database cannot be used, if it cannot */
  async #runGroup(lock: string, group: Write[]): Promise<StoreUnavailable | undefined> {
    try {
      const outcomes = await retry(() => this.#transaction(lock, group))
      group.forEach(({ resolve }, index) => {
        resolve(outcomes[index] ?? [])
      })
    } catch (error) {
      const away = error instanceof StoreUnavailable ? error : undefined
      // One wrong statement ends the transaction of all.
      if (group.length > 1 && !away) for (const write of group) await this.#runGroup(lock, [write])
      else for (const { reject } of group) reject(error)
      return away
    }
  }

  async #transaction(lock: string, group: readonly Write[]): Promise<Rows[]> {
    const session = await this.#connections.connect('write')
    try {
      // In one message, which saves a round trip.
      await session.run({ text: `begin; select pg_advisory_xact_lock(${lockNumber(lock)})` })
      const outcomes: Rows[] = []
      for (const { statement } of group) outcomes.push((await session.run(statement)).rows)
      await session.run({ text: 'commit' })
      return outcomes
    } catch (error) {
      // Nothing more is sent on a connection that is lost.
      await session.run({ text: 'rollback' }).catch(() => {})
      throw error
    } finally {
      session.release()
    }
  }
}

/** Two locks with the same number only wait for each other. */
function lockNumber(lock: string): bigint {
  return hash('sha256', lock, 'buffer').readBigInt64BE()
}
