import type { FileHandle } from 'node:fs/promises'
import type { Holder, SharedBudget } from '../schedule/shared-budget.ts'
import { hasCode, nullOnSystemError } from '../util/expected-errors.ts'
import type { Spool } from './spool.ts'

/** A file, and how much of it was written and read. */
interface SpoolFile {
  handle: FileHandle
  written: number
  read: number
}

/** Bytes that are read from a file at once. A client that does not read keeps them in memory. */
const READ_AT_ONCE = 64 * 1024
/** Bytes after which another file is begun, so that what has been read leaves the disk. */
const FILE_BYTES = 16 * 1024 ** 2
/** Nothing can be stored now: disk or quota full, disk broken or gone, too many open files. */
const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EFBIG', 'EIO', 'EROFS', 'ENOENT', 'EACCES', 'EMFILE', 'ENFILE']

/**
 * A queue of bytes in files. One `write` and one `read` may run at a time, beside each other.
 *
 * ```
 *   a file:   last ── 16 MiB are written ──▶ full ── all was read ──▶ closed: its bytes are free
 *              └───── all was read, and nothing is being written ──────▲
 * ```
 */
export class SpoolFiles {
  readonly #held: Holder
  readonly #spool: Spool
  /** In the order in which they were written. */
  readonly #files: SpoolFile[] = []
  #unread = 0
  #isWriting = false
  #isClosed = false

  /** @param onYield see `SharedBudget` */
  constructor(client: string, budget: SharedBudget, spool: Spool, onYield?: () => void) {
    this.#held = budget.open(client, onYield)
    this.#spool = spool
  }

  /** Bytes that were written and not read yet. */
  get unread(): number {
    return this.#unread
  }

  /** Stores chunks, or nothing of them. Returns whether there was room. @throws any other error */
  async write(chunks: readonly Buffer[], length: number): Promise<boolean> {
    if (!this.#held.take(length)) return false
    this.#isWriting = true
    const isStored = await this.#append(chunks, length).catch((error: unknown) => {
      if (hasCode(error, ...NO_ROOM)) return false
      throw error
    })
    this.#isWriting = false
    if (isStored) this.#unread += length
    else this.#held.release(length)
    this.#closeRead()
    return isStored
  }

  /** Returns the oldest bytes; there must be some. @throws the system's error */
  async read(): Promise<Buffer> {
    const file = this.#files.find(({ read, written }) => read < written)
    if (!file) throw new Error('nothing is stored')
    const length = Math.min(READ_AT_ONCE, file.written - file.read)
    const { buffer, bytesRead } = await file.handle.read(Buffer.allocUnsafeSlow(length), 0, length, file.read)
    if (bytesRead < length) throw new Error('a file of the spool is shorter than what was written to it')
    file.read += length
    this.#unread -= length
    this.#closeRead()
    return buffer
  }

  /** From now on the files do not give way. */
  keep(): void {
    this.#held.keep()
  }

  /** Frees everything. What runs is ended first. */
  close(): void {
    this.#held.release()
    this.#isClosed = true
    for (const { handle } of this.#files.splice(0)) closeUnneeded(handle)
  }

  async #append(chunks: readonly Buffer[], length: number): Promise<boolean> {
    let file = this.#files.at(-1)
    if (!file || file.written >= FILE_BYTES) {
      file = { handle: await this.#spool.createFile(), written: 0, read: 0 }
      if (this.#isClosed) {
        await file.handle.close()
        return false
      }
      this.#files.push(file)
    }
    const { bytesWritten } = await file.handle.writev(chunks, file.written)
    if (bytesWritten < length) return false
    file.written += length
    return true
  }

  /** Closes the files of which all was read. More may be written to the last one. */
  #closeRead(): void {
    for (;;) {
      const [oldest] = this.#files
      if (!oldest || oldest.read < oldest.written || (this.#isWriting && this.#files.length === 1)) return
      this.#files.shift()
      closeUnneeded(oldest.handle)
      this.#held.release(oldest.written)
    }
  }
}

/** Closes a file whose content nobody needs, so it does not matter whether it was stored. */
function closeUnneeded(handle: FileHandle): void {
  handle.close().catch(nullOnSystemError)
}
