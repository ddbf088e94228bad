import { statSync } from 'node:fs'
import Sqlite from 'better-sqlite3'
import { isSystemError } from '../../util/expected-errors.ts'
import { StoreUnavailable } from '../engine.ts'

/** Milliseconds for which reads rely on the previous check. */
const FRESH = 1_000

interface Identity {
  dev: number
  ino: number
}

/**
 * Checks that the files of an open database still exist under their names. After a file was deleted
 * or replaced, SQLite continues to write to the open file, whose content is lost when the process
 * ends.
 */
export class DatabaseFiles {
  readonly #file: string
  readonly #opened = new Map<string, Identity>()
  readonly #saveLog: () => void
  #checkedAt = Number.NEGATIVE_INFINITY
  #error: StoreUnavailable | undefined

  /** @param saveLog copies the open write-ahead log to the open database */
  constructor(file: string, saveLog: () => void) {
    this.#file = file
    this.#saveLog = saveLog
    const { dev, ino } = statSync(file)
    this.#opened.set(file, { dev, ino })
  }

  /** Checks the files. @throws StoreUnavailable if one of them was deleted or replaced */
  check(): void {
    const error = this.#find()
    if (error && !this.#error) this.#save()
    this.#checkedAt = performance.now()
    this.#error = error
    if (error) throw error
  }

  /**
   * Checks the files at most once a second, or always after a failed check.
   *
   * @throws StoreUnavailable
   */
  checkNowAndThen(): void {
    if (this.#error || performance.now() - this.#checkedAt > FRESH) this.check()
  }

  #find(): StoreUnavailable | undefined {
    try {
      return this.#compare()
    } catch (error) {
      // The folder cannot be entered, a link leads nowhere, or the disk reports an error.
      const reason = error instanceof Error ? error.message : String(error)
      return new StoreUnavailable(
        `SQLite: ${this.#file} cannot be checked: ${reason}. Nothing can be stored until this is fixed`,
        { cause: error },
      )
    }
  }

  /** @throws the system's error */
  #compare(): StoreUnavailable | undefined {
    // The first transaction creates the other two, before the first check. They exist until the
    // last connection is closed.
    for (const path of [this.#file, `${this.#file}-wal`, `${this.#file}-shm`]) {
      const file = statSync(path, { throwIfNoEntry: false })
      const opened = this.#opened.get(path)
      if (opened === undefined) {
        if (file) this.#opened.set(path, { dev: file.dev, ino: file.ino })
      } else if (opened.ino !== file?.ino || opened.dev !== file.dev) {
        return new StoreUnavailable(
          `SQLite: ${path} was ${file ? 'replaced' : 'deleted'} while the server had it open, so nothing more can be stored. ` +
            (path === this.#file
              ? 'Put the file back, or stop the server, restore the newest backup and start the server again'
              : 'Restart the server'),
        )
      }
    }
    return undefined
  }

  /**
   * Saves acknowledged reports that are only in the open log, unless another log was created under
   * its name.
   */
  #save(): void {
    try {
      const [database, log] = [this.#file, `${this.#file}-wal`].map((path) =>
        statSync(path, { throwIfNoEntry: false }),
      )
      if (log || database?.ino !== this.#opened.get(this.#file)?.ino) return
      this.#saveLog()
    } catch (error) {
      // The log is still open, and SQLite saves it when the server stops.
      if (!isSystemError(error) && !(error instanceof Sqlite.SqliteError)) throw error
    }
  }
}
