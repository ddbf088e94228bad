import { statSync } from 'node:fs'
import { StoreUnavailable } from '../engine.ts'

/** Milliseconds for which reads rely on what was found before. */
const FRESH = 1_000

interface Identity {
  dev: number
  ino: number
}

/**
 * The files of an open database. An open file can be deleted, or another one put in its place: what is written then is in
 * no file that anybody will ever open again.
 */
export class DatabaseFiles {
  readonly #file: string
  readonly #opened = new Map<string, Identity>()
  readonly #saveLog: () => void
  #checkedAt = Number.NEGATIVE_INFINITY
  #fault: StoreUnavailable | undefined

  /** @param saveLog copies what is in the open write-ahead log to the open database */
  constructor(file: string, saveLog: () => void) {
    this.#file = file
    this.#saveLog = saveLog
    const { dev, ino } = statSync(file)
    this.#opened.set(file, { dev, ino })
  }

  /** @throws StoreUnavailable when the files are not those that were opened */
  check(): void {
    const fault = this.#find()
    if (fault && !this.#fault) this.#save()
    this.#checkedAt = performance.now()
    this.#fault = fault
    if (fault) throw fault
  }

  /** The same, but looks only once a second while nothing is wrong. @throws StoreUnavailable */
  checkNowAndThen(): void {
    if (this.#fault || performance.now() - this.#checkedAt > FRESH) this.check()
  }

  #find(): StoreUnavailable | undefined {
    // The other two are made by the first transaction, which comes before the first look here, and stay until the last
    // connection of all is closed.
    for (const path of [this.#file, `${this.#file}-wal`, `${this.#file}-shm`]) {
      const found = statSync(path, { throwIfNoEntry: false })
      const opened = this.#opened.get(path)
      if (opened === undefined) {
        if (found) this.#opened.set(path, { dev: found.dev, ino: found.ino })
      } else if (found?.ino !== opened.ino || found.dev !== opened.dev) {
        return new StoreUnavailable(
          `SQLite: ${path} was ${found ? 'replaced' : 'deleted'} while the server had it open, so nothing more is stored. ` +
            (path === this.#file
              ? 'Put the file back; or stop the server, restore the newest backup and start the server again'
              : 'Stop the server and start it again'),
        )
      }
    }
    return undefined
  }

  /** Reports that were acknowledged may be in the log alone. Where nobody has made a new one, they can still be saved. */
  #save(): void {
    const [database, log] = [this.#file, `${this.#file}-wal`].map((path) =>
      statSync(path, { throwIfNoEntry: false }),
    )
    if (log || database?.ino !== this.#opened.get(this.#file)?.ino) return
    try {
      this.#saveLog()
    } catch {
      // The log stays open: it is saved when the server stops.
    }
  }
}
