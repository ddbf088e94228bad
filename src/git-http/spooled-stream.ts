import type { FileHandle } from 'node:fs/promises'
import { Duplex } from 'node:stream'
import type { SharedBudget } from '../util/shared-budget.ts'
import type { Spool } from './spool.ts'

/** Where bytes may wait. */
export interface Room {
  /** Whose shares are used: a user or an address. */
  client: string
  /** The first bytes are kept in memory, at most `bytes` of them. */
  memory: { bytes: number; budget: SharedBudget }
  /** Others go to files. */
  disk: { spool: Spool; budget: SharedBudget }
}

/** A file, and how much of it was written and read. */
interface Part {
  file: FileHandle
  written: number
  read: number
}

/** A write that found no room. The writer waits. */
interface Held {
  chunks: readonly Buffer[]
  done(): void
  /** Called when the writer goes on. */
  release(): void
}

/** Bytes that are written at once. */
const WRITE_BATCH = 1024 * 1024
/** Bytes that are read from a file at once. */
const READ_AHEAD = 256 * 1024
/** Bytes after which another file is begun, so that what has been read leaves the disk. */
const FILE_BYTES = 16 * 1024 ** 2
/** Bytes that a chunk in memory takes in addition to its content. It matters if there are many small ones. */
export const CHUNK_OVERHEAD = 512

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
  readonly #room: Room
  readonly #hold: () => () => void
  /** Files in the order in which they were written. */
  readonly #parts: Part[] = []
  #inMemory = 0
  /** Bytes given to the reader after the last ones that are counted in `#inMemory`. */
  #afterMemory = 0
  #onDisk = 0
  #held: Held | null = null
  #storing = false
  #taking = false
  /** Whether the reader waits. */
  #wanted = false
  #isWritten = false

  /** @param hold called when a write finds no room. Returns a function that is called when the writer goes on */
  constructor(room: Room, hold: () => () => void) {
    super({ writableHighWaterMark: WRITE_BATCH, readableHighWaterMark: READ_AHEAD })
    this.#room = room
    this.#hold = hold
    // It may end with an error at any time, also while nobody reads or writes.
    this.on('error', () => {})
  }

  override _writev(writes: { chunk: Buffer }[], done: () => void): void {
    const chunks = writes.map(({ chunk }) => chunk)
    if (this.#unread() === undefined && (this.#wanted || this.#takeMemory(chunks))) {
      this.#give(chunks)
      done()
    } else {
      void this.#store(chunks, done)
    }
  }

  override _final(done: () => void): void {
    this.#isWritten = true
    done()
    this.#serve()
  }

  override _read(): void {
    this.#wanted = true
    this.#releaseMemory()
    this.#serve()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const { client, memory, disk } = this.#room
    memory.budget.release(client, this.#inMemory)
    disk.budget.release(client, this.#onDisk)
    for (const { file } of this.#parts.splice(0)) file.close().catch(() => {})
    this.#held?.release()
    done(error)
  }

  async #store(chunks: readonly Buffer[], done: () => void): Promise<void> {
    this.#storing = true
    const isStored = await this.#write(chunks)
    this.#storing = false
    if (isStored) this.#goOn(done)
    else if (!this.destroyed) this.#held ??= { chunks, done, release: this.#hold() }
    this.#serve()
  }

  /** Returns whether there was room. */
  async #write(chunks: readonly Buffer[]): Promise<boolean> {
    const { client, disk } = this.#room
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    if (this.destroyed || !disk.budget.take(client, length, this.#onDisk)) return false
    this.#onDisk += length
    try {
      const part = await this.#lastPart()
      const { bytesWritten } = await part.file.writev(chunks, part.written)
      if (bytesWritten < length) throw new Error('the disk is full')
      part.written += length
      return true
    } catch {
      this.#releaseDisk(length)
      return false
    }
  }

  async #lastPart(): Promise<Part> {
    const last = this.#parts.at(-1)
    if (last && last.written < FILE_BYTES) return last
    const part = { file: await this.#room.disk.spool.createFile(), written: 0, read: 0 }
    if (!this.destroyed) this.#parts.push(part)
    else await part.file.close()
    return part
  }

  /** Gives the reader what it waits for, if there is any. */
  #serve(): void {
    if (!this.#wanted || this.#taking || this.destroyed) return
    const part = this.#unread()
    const held = this.#storing ? null : this.#held
    if (part) {
      this.#taking = true
      this.#take(part).catch((error: Error) => this.destroy(error))
    } else if (held) {
      this.#give(held.chunks)
      this.#goOn(held.done)
    } else if (this.#isWritten) {
      this.#wanted = false
      this.push(null)
    }
  }

  async #take(part: Part): Promise<void> {
    const length = Math.min(READ_AHEAD, part.written - part.read)
    const { buffer, bytesRead } = await part.file.read(Buffer.allocUnsafeSlow(length), 0, length, part.read)
    if (bytesRead < length) throw new Error('a file of the spool is shorter than what was written to it')
    part.read += length
    this.#unread()
    this.#taking = false
    this.#give([buffer])
    if (this.#held && !this.#storing) await this.#store(this.#held.chunks, this.#held.done)
  }

  /** Returns the oldest file with unread bytes. Removes those before it. */
  #unread(): Part | undefined {
    for (;;) {
      const [part] = this.#parts
      if (part === undefined || part.read < part.written) return part
      // More will be written to it.
      if (this.#parts.length === 1 && this.#storing) return undefined
      this.#parts.shift()
      part.file.close().catch(() => {})
      this.#releaseDisk(part.written)
    }
  }

  #give(chunks: readonly Buffer[]): void {
    this.#wanted = false
    for (const chunk of chunks) {
      this.#afterMemory += chunk.length
      this.push(chunk)
    }
  }

  #goOn(done: () => void): void {
    this.#held?.release()
    this.#held = null
    done()
  }

  /** Takes memory for chunks, which they keep until the reader has read all that is in memory. */
  #takeMemory(chunks: readonly Buffer[]): boolean {
    this.#releaseMemory()
    const { client, memory } = this.#room
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    const size = length + chunks.length * CHUNK_OVERHEAD
    if (this.destroyed || this.#inMemory + size > memory.bytes || !memory.budget.take(client, size))
      return false
    this.#inMemory += size
    // They are given next.
    this.#afterMemory = -length
    return true
  }

  #releaseMemory(): void {
    if (this.readableLength > this.#afterMemory || this.destroyed) return
    this.#room.memory.budget.release(this.#room.client, this.#inMemory)
    this.#inMemory = 0
  }

  #releaseDisk(length: number): void {
    // All of it was released when the stream was destroyed.
    if (this.destroyed) return
    this.#room.disk.budget.release(this.#room.client, length)
    this.#onDisk -= length
  }
}
