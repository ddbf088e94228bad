import { IncomingMessage } from 'node:http'

/** Chunks of fewer bytes are joined. */
const SMALL = 1024

/**
 * A request whose unread body takes hardly more memory than its bytes. A stream buffers 64 KiB in any number of chunks,
 * and a chunk takes some 400 bytes beside its content, so a body that comes one byte at a time would take 25 MB.
 */
export class Incoming extends IncomingMessage {
  #small: Buffer[] | null = null
  #length = 0

  /** Called by Node's parser with each chunk. All chunks of one read from the socket come before the next immediate. */
  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    // A stream that is being read has nothing in its buffer: it hands each chunk on at once.
    if (this.readableLength === 0 || !Buffer.isBuffer(chunk) || chunk.length >= SMALL) {
      this.#join()
      return super.push(chunk, encoding)
    }
    if (this.#small === null) {
      this.#small = []
      setImmediate(() => this.#join())
    }
    this.#small.push(chunk)
    this.#length += chunk.length
    return this.readableLength + this.#length < this.readableHighWaterMark
  }

  #join(): void {
    if (this.#small === null) return
    const joined = Buffer.concat(this.#small, this.#length)
    this.#small = null
    this.#length = 0
    super.push(joined)
  }
}
