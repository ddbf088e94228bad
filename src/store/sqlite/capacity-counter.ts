import type { LimitedWrite } from '../engine.ts'
import type { Prepared } from '../prepared.ts'
import type { Connection } from './connection.ts'
import type { RunStatement } from './group-commit.ts'

/** Groups whose room is remembered; when there are more, all are counted again. */
const MOST = 10_000

/**
 * Keeps groups of rows within their limits without counting them at each write.
 *
 * A group is counted when its first row is written, within the transaction. From then on its room is known, as long as this
 * connection alone has written: SQLite counts the commits of all others (`PRAGMA data_version`). A transaction that is
 * undone has added nothing of what was counted within it.
 */
export class CapacityCounter {
  readonly #rooms = new Map<string, number>()
  readonly #counter: () => unknown
  #version: unknown

  constructor(connection: Connection) {
    const pragma = connection.prepare('pragma data_version').pluck()
    this.#counter = () => pragma.get()
  }

  /** To be called when a transaction has begun, which keeps all others from writing. */
  begin(): void {
    const version = this.#counter()
    if (version !== this.#version) this.forget()
    this.#version = version
  }

  /** To be called when a transaction was undone. */
  forget(): void {
    this.#rooms.clear()
  }

  /** Runs a write within a transaction. @returns the row; none where it would be one too many */
  write<Params, Row>(
    run: RunStatement,
    { limit, upsert, replace, count, isNew }: LimitedWrite<Params, Row>,
    params: Params,
    group: string,
  ): Row[] {
    // The statement decides what a row is; `prepare` derived the type from the same query.
    const rows = <R>({ sql, bind }: Prepared<Params, R>) => run(sql, bind(params)) as R[]
    let room = this.#rooms.get(group)
    if (room === undefined) {
      room = limit - (rows(count)[0]?.rows ?? 0)
      this.#remember(group, room)
    }
    if (room <= 0) return rows(replace)
    const [row] = rows(upsert)
    if (row === undefined) return []
    if (isNew(row, params)) this.#remember(group, room - 1)
    return [row]
  }

  #remember(group: string, room: number): void {
    if (this.#rooms.size >= MOST && !this.#rooms.has(group)) this.#rooms.clear()
    this.#rooms.set(group, room)
  }
}
