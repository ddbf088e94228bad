import type { FileHandle } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { ServiceError } from '../errors.ts'
import type { Holder } from '../schedule/shared-budget.ts'
import { isSystemError, nullOnSystemError } from '../util/expected-errors.ts'
import { CommandReader, type PushRequest } from './push/commands.ts'

/** Bytes of a push that are written at once: fewer make one of 100 MB a fifth slower. */
const WRITE_BATCH = 1024 * 1024
/** Bytes in which the commands of most pushes end. Many pushes may arrive, so others are read later. */
const EARLY_COMMANDS = 64 * 1024

/**
 * Stores a push in a file, and reads its commands along.
 *
 * ```
 *   storing ── refuse: no room, or another client needs it ──▶ discarding ──▶ finished, with `refusal`
 *                                                                 └── its commands are too long ──▶ error
 * ```
 *
 * git sends a whole push before it reads the answer, and prints only the report of a push. So one
 * that is refused is received to its end, if it is known of which refs the report must be.
 */
export class PushSink extends Writable {
  readonly #file: FileHandle | null
  readonly #holder: Holder
  readonly #reader = new CommandReader()
  #length = 0
  #isMalformed = false
  #refusal: ServiceError | null = null

  /**
   * @param file is closed when the sink is destroyed. Its position stays at its start. null: it
   * could not be created
   */
  constructor(file: FileHandle | null, holder: Holder) {
    super({ highWaterMark: WRITE_BATCH, autoDestroy: false })
    this.#file = file
    this.#holder = holder
  }

  /** What the push asks for; null if that is malformed, or so much that it was not read. */
  get request(): PushRequest | null {
    return this.#isMalformed ? null : this.#reader.request
  }

  /** Why the push was not stored; null if it was. */
  get refusal(): ServiceError | null {
    return this.#refusal
  }

  /** Whether the pack has begun to arrive. */
  get hasPack(): boolean {
    return this.#reader.hasMore || this.#length > EARLY_COMMANDS
  }

  /** Stores no more, and frees the room. */
  refuse(error: ServiceError): void {
    this.#refusal ??= error
    this.#holder.release()
    this.#file?.truncate().catch(nullOnSystemError)
  }

  override _writev(writes: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#take(writes.map(({ chunk }) => chunk)).then(() => done(), done)
  }

  override _final(done: (error?: Error | null) => void): void {
    done(this.request ? null : this.#refusal)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#holder.release()
    const closed = this.#file?.close().catch(nullOnSystemError) ?? Promise.resolve()
    closed.then(() => done(error), done)
  }

  /** @throws ServiceError why the push was refused, if nobody knows of which refs */
  async #take(chunks: readonly Buffer[]): Promise<void> {
    const position = this.#length
    for (const chunk of chunks) {
      if (this.#length <= EARLY_COMMANDS) this.#readCommands(chunk)
      this.#length += chunk.length
    }
    if (!this.#refusal) await this.#store(chunks, position)
    if (this.#refusal && !this.request && this.#length > EARLY_COMMANDS) throw this.#refusal
  }

  #readCommands(chunk: Buffer): void {
    try {
      this.#reader.read(chunk)
    } catch (error) {
      // Whoever reads the whole push learns why.
      if (!(error instanceof ServiceError)) throw error
      this.#isMalformed = true
    }
  }

  async #store(chunks: readonly Buffer[], position: number): Promise<void> {
    const length = this.#length - position
    if (!this.#file || !this.#holder.take(length)) {
      this.refuse(new ServiceError('no_room'))
      return
    }
    try {
      const { bytesWritten } = await this.#file.writev(chunks, position)
      if (bytesWritten < length) this.refuse(new ServiceError('no_room'))
    } catch (cause) {
      if (!isSystemError(cause)) throw cause
      this.refuse(new ServiceError('no_room', undefined, { cause }))
    }
  }
}
