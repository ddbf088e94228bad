import { Duplex } from 'node:stream'
import type { Holder, SharedBudget } from '../schedule/shared-budget.ts'
import type { Spool } from './spool.ts'
import { SpoolFiles } from './spool-files.ts'

/** Where bytes may wait. */
export interface Room {
  /** Whose shares are used: a user or an address. */
  client: string
  /** The first bytes are kept in memory, at most `bytes` of them. */
  memory: { bytes: number; budget: SharedBudget }
  /** Others go to files. */
  disk: { spool: Spool; budget: SharedBudget }
  /**
   * Called when the stream has lost its room to another client. Without it, and after `keep`, the
   * stream does not give way.
   */
  onYield?(): void
}

/** What is being written; the writer waits. */
interface Write {
  chunks: readonly Buffer[]
  length: number
  done(): void
  isStoring: boolean
  /** Called when the writer goes on; null unless the write was held. */
  release: (() => void) | null
}

/** Bytes that are written at once. */
const WRITE_BATCH = 1024 * 1024
/** Bytes that a chunk in memory takes besides its content. They matter for many small chunks. */
const CHUNK_OVERHEAD = 512

/**
 * A stream whose writer does not wait for its reader while there is room for what was not read yet.
 *
 * ```
 *           nothing is stored, and the reader waits or there is room in memory
 *   write ──────────────────────────────────────────────────────────────▶ read
 *     │ otherwise                                                          ▲
 *     ▼         room on disk                                               │
 *   store ──────────────────────────▶ stored ── all before it was read ────┤
 *     ▲ │                                                                  │
 *     │ └─ no room ──▶ held ── the reader waits, and nothing is stored ────┘
 *     │                 │
 *     └─────────────────┘ the reader has read some
 * ```
 *
 * So the reader or the writer always goes on, however little room there is.
 */
export class SpooledStream extends Duplex {
  readonly #memory: Holder
  readonly #memoryBytes: number
  /** The position in the stream of the end of what was last put into memory. */
  #memoryEnd = 0
  readonly #files: SpoolFiles
  readonly #hold: () => () => void
  /** The reader has enough, waits for bytes, or waits for those that are being read from a file. */
  #reader: 'served' | 'waiting' | 'loading' = 'served'
  #write: Write | null = null
  #isWritten = false
  /** Bytes given to the reader. Node keeps those that it has not read: `readableLength`. */
  #given = 0

  /**
   * @param hold called when a write finds no room. Returns a function that is called when the
   * writer goes on
   */
  constructor({ client, memory, disk, onYield }: Room, hold: () => () => void) {
    // Node asks for nothing ahead of the reader, so that what it keeps is counted.
    super({ writableHighWaterMark: WRITE_BATCH, readableHighWaterMark: 0 })
    this.#memory = memory.budget.open(client, onYield)
    this.#memoryBytes = memory.bytes
    this.#files = new SpoolFiles(client, disk.budget, disk.spool, onYield)
    this.#hold = hold
    // It may end with an error at any time, also while nobody reads or writes.
    this.on('error', () => {})
  }

  /** From now on the stream does not give way. */
  keep(): void {
    this.#memory.keep()
    this.#files.keep()
  }

  override _writev(writes: { chunk: Buffer }[], done: () => void): void {
    const chunks = writes.map(({ chunk }) => chunk)
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    this.#write = { chunks, length, done, isStoring: false, release: null }
    this.#releaseMemory()
    const isNext = this.#files.unread === 0
    if (isNext && (this.#reader === 'waiting' || this.#takeMemory(chunks, length))) this.#pass(this.#write)
    else this.#store(this.#write)
  }

  override _final(done: () => void): void {
    this.#isWritten = true
    done()
    this.#serve()
  }

  override _read(): void {
    if (this.#reader === 'served') this.#reader = 'waiting'
    this.#releaseMemory()
    this.#serve()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#memory.release()
    this.#files.close()
    this.#write?.release?.()
    done(error)
  }

  /** Returns whether there is memory for chunks that the reader has not asked for. */
  #takeMemory(chunks: readonly Buffer[], length: number): boolean {
    const size = length + chunks.length * CHUNK_OVERHEAD
    if (this.#memory.held + size > this.#memoryBytes || !this.#memory.take(size)) return false
    this.#memoryEnd = this.#given + length
    return true
  }

  /** Frees the memory if the reader has read all that was put there. */
  #releaseMemory(): void {
    if (this.#given - this.readableLength >= this.#memoryEnd) this.#memory.release()
  }

  /** Gives a waiting reader the oldest bytes, if there are any. */
  #serve(): void {
    if (this.#reader !== 'waiting' || this.destroyed) return
    if (this.#files.unread > 0) this.#load()
    else if (this.#write) {
      if (!this.#write.isStoring) this.#pass(this.#write)
    } else if (this.#isWritten) this.push(null)
  }

  #load(): void {
    this.#reader = 'loading'
    const give = (chunk: Buffer) => {
      if (this.destroyed) return
      this.#give([chunk])
      // There may be room now.
      if (this.#write && !this.#write.isStoring) this.#store(this.#write)
    }
    this.#files
      .read()
      .then(give)
      .catch((error: Error) => this.destroy(error))
  }

  #store(write: Write): void {
    write.isStoring = true
    const go = (isStored: boolean) => {
      write.isStoring = false
      if (this.destroyed) return
      if (isStored) this.#finish(write)
      else write.release ??= this.#hold()
      this.#serve()
    }
    this.#files
      .write(write.chunks, write.length)
      .then(go)
      .catch((error: Error) => this.destroy(error))
  }

  /** Gives the reader what is being written. */
  #pass(write: Write): void {
    this.#give(write.chunks)
    this.#finish(write)
  }

  #give(chunks: readonly Buffer[]): void {
    this.#reader = 'served'
    for (const chunk of chunks) {
      this.#given += chunk.length
      this.push(chunk)
    }
  }

  #finish({ release, done }: Write): void {
    this.#write = null
    release?.()
    done()
  }
}
