import { Duplex } from 'node:stream'
import { type Room, SpooledBytes, SpoolFull } from './spool.ts'

/** Bytes that are written at once: fewer make a push of 100 MB a fifth slower. */
const WRITE_BATCH = 1024 * 1024
/** Bytes that are read ahead. */
const READ_AHEAD = 256 * 1024

/** A write that found no room. The writer waits. */
interface Held {
  chunks: readonly Buffer[]
  done(): void
  /** Called when the writer goes on. */
  release(): void
}

/**
 * A stream whose writer does not wait for its reader while there is room for what was not read yet.
 *
 * ```
 *           the reader waits, and nothing is stored
 *   write ──────────────────────────────────────────────────────────────▶ read
 *     │ otherwise                                                          ▲
 *     ▼            room                                                    │
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
  readonly #bytes: SpooledBytes
  readonly #hold: (cause: SpoolFull) => () => void
  #held: Held | null = null
  #storing = false
  #taking = false
  /** Whether the reader waits. */
  #wanted = false
  #isWritten = false

  /**
   * @param hold called when a write finds no room. Returns a function that is called when the writer goes on; throws to end
   * the stream instead
   */
  constructor(room: Room, hold: (cause: SpoolFull) => () => void) {
    super({ writableHighWaterMark: WRITE_BATCH, readableHighWaterMark: READ_AHEAD })
    this.#bytes = new SpooledBytes(room)
    this.#hold = hold
    // It may end with an error at any time, also while nobody reads or writes.
    this.on('error', () => {})
  }

  /** Returns bytes from an offset on, without reading them: see `SpooledBytes.peek`. */
  peek(offset: number): Promise<Buffer> {
    return this.#bytes.peek(offset)
  }

  override _writev(writes: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    const chunks = writes.map(({ chunk }) => chunk)
    if (this.#wanted && !this.#taking && this.#bytes.isEmpty) {
      this.#give(chunks)
      done()
    } else {
      this.#store(chunks, done).catch(done)
    }
  }

  override _final(done: () => void): void {
    this.#isWritten = true
    done()
    this.#serve()
  }

  override _read(): void {
    this.#wanted = true
    this.#serve()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#bytes.close()
    this.#held?.release()
    done(error)
  }

  async #store(chunks: readonly Buffer[], done: () => void): Promise<void> {
    this.#storing = true
    let full: SpoolFull | null = null
    try {
      await this.#bytes.append(chunks)
    } catch (error) {
      if (!(error instanceof SpoolFull)) throw error
      full = error
    } finally {
      this.#storing = false
    }
    if (full === null) this.#goOn(done)
    else if (!this.destroyed) this.#held ??= { chunks, done, release: this.#hold(full) }
    this.#serve()
  }

  /** Gives the reader what it waits for, if there is any. */
  #serve(): void {
    if (!this.#wanted || this.#taking || this.destroyed) return
    const held = this.#storing ? null : this.#held
    if (!this.#bytes.isEmpty) {
      this.#taking = true
      this.#take().catch((error: Error) => this.destroy(error))
    } else if (held) {
      this.#give(held.chunks)
      this.#goOn(held.done)
    } else if (this.#isWritten) {
      this.#wanted = false
      this.push(null)
    }
  }

  async #take(): Promise<void> {
    const chunk = await this.#bytes.take()
    this.#taking = false
    this.#give([chunk])
    if (this.#held && !this.#storing) await this.#store(this.#held.chunks, this.#held.done)
  }

  #give(chunks: readonly Buffer[]): void {
    this.#wanted = false
    for (const chunk of chunks) this.push(chunk)
  }

  #goOn(done: () => void): void {
    this.#held?.release()
    this.#held = null
    done()
  }
}
