import type { Connection } from './connection.ts'
import { retryWhileBusy, translateError } from './driver-errors.ts'

/** Runs a statement, and gives its rows. */
export type RunStatement = (sql: string, values: unknown[]) => unknown[]

/** What is written within a transaction. @returns rows to acknowledge it with */
type Work = (run: RunStatement) => unknown[]

interface Write {
  work: Work
  touched: string | undefined
  resolve(rows: unknown[]): void
  reject(error: unknown): void
}

interface Events {
  /** A transaction has begun: from here to its end, nobody else writes. */
  onBegin(): void
  /** A transaction was undone. */
  onUndone(): void
  /** A write is about to be acknowledged; of the key that it touched, undefined: any. */
  onWrite(touched: string | undefined): void
  /** After each commit: when it throws, nothing of that commit is acknowledged. */
  check(): void
}

/**
 * Commits the writes of one event-loop turn together: one sync to disk for all of them instead of one for each.
 * Every promise is kept only after the commit.
 */
export class GroupCommit {
  readonly #connection: Connection
  readonly #events: Events
  #waiting: Write[] = []
  #running: Promise<void> | null = null

  constructor(connection: Connection, events: Events) {
    this.#connection = connection
    this.#events = events
  }

  write(work: Work, touched?: string): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.flush())
      this.#waiting.push({ work, touched, resolve, reject })
    })
  }

  /** Commits what is waiting now rather than at the end of the turn; nothing when nothing is. */
  flush(): void {
    if (this.#waiting.length > 0) this.#running ??= this.#run()
  }

  /** When nothing is waiting any more. */
  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#running) {
      this.flush()
      await this.#running
    }
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      try {
        await this.#commit(group)
      } catch (error) {
        for (const write of group) write.reject(error)
      }
    }
    this.#running = null
  }

  async #commit(group: Write[]): Promise<void> {
    const outcomes = await retryWhileBusy(() => this.#transaction(group))
    for (const { touched } of group) this.#events.onWrite(touched)
    this.#events.check()
    group.forEach((write, index) => {
      const outcome = outcomes[index]
      if (outcome instanceof Failure) write.reject(outcome.error)
      else write.resolve(outcome ?? [])
    })
  }

  /** A statement that fails leaves the others of its group standing. */
  #transaction(group: Write[]): (unknown[] | Failure)[] {
    const { raw } = this.#connection
    this.#connection.prepare('begin immediate').run()
    let committed = false
    try {
      this.#events.onBegin()
      const outcomes = group.map((write) => this.#execute(write))
      this.#connection.prepare('commit').run()
      committed = true
      return outcomes
    } finally {
      if (!committed) this.#events.onUndone()
      if (raw.inTransaction) raw.exec('rollback')
    }
  }

  #execute({ work }: Write): unknown[] | Failure {
    try {
      return work(this.#runStatement)
    } catch (error) {
      // SQLite ends the whole transaction at some faults (disk full, out of memory): then none of the group stands.
      if (!this.#connection.raw.inTransaction) throw error
      return new Failure(translateError(error))
    }
  }

  readonly #runStatement: RunStatement = (sql, values) => {
    const statement = this.#connection.prepare(sql)
    if (statement.reader) return statement.all(...values)
    statement.run(...values)
    return []
  }
}

class Failure {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}
