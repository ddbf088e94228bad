import type { Connection } from './connection.ts'
import { asFault, whenFree } from './faults.ts'

interface Statement {
  sql: string
  /** Of its placeholders; asked for when it runs. */
  values(): unknown[]
}

interface Write {
  statements: readonly Statement[]
  touched: string | undefined
  resolve(rows: unknown[]): void
  reject(error: unknown): void
}

/**
 * Commits the writes of one event-loop turn together: one sync to disk for all of them instead of one for each.
 * Every promise is kept only after the commit.
 */
export class WriteGroup {
  readonly #connection: Connection
  readonly #onWrite: (touched: string | undefined) => void
  readonly #check: () => void
  #waiting: Write[] = []
  #running: Promise<void> | null = null

  /**
   * @param onWrite told, before a write's promise is kept, of the key that it touched; undefined: any
   * @param check called after each commit; when it throws, nothing of that commit is acknowledged
   */
  constructor(
    connection: Connection,
    { onWrite, check }: { onWrite(touched: string | undefined): void; check(): void },
  ) {
    this.#connection = connection
    this.#onWrite = onWrite
    this.#check = check
  }

  /** Runs the statements in turn until one returns rows, and gives these. */
  write(statements: readonly Statement[], touched?: string): Promise<unknown[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.flush())
      this.#waiting.push({ statements, touched, resolve, reject })
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
    const outcomes = await whenFree(() => this.#transaction(group))
    for (const { touched } of group) this.#onWrite(touched)
    this.#check()
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
    try {
      const outcomes = group.map((write) => this.#execute(write))
      this.#connection.prepare('commit').run()
      return outcomes
    } finally {
      if (raw.inTransaction) raw.exec('rollback')
    }
  }

  #execute({ statements }: Write): unknown[] | Failure {
    try {
      for (const { sql, values } of statements) {
        const rows = this.#rowsOf(sql, values())
        if (rows.length > 0) return rows
      }
      return []
    } catch (error) {
      // SQLite ends the whole transaction at some faults (disk full, out of memory): then none of the group stands.
      if (!this.#connection.raw.inTransaction) throw error
      return new Failure(asFault(error))
    }
  }

  #rowsOf(sql: string, values: unknown[]): unknown[] {
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
