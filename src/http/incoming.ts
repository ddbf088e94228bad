import { IncomingMessage } from 'node:http'

/** Chunks smaller than this many bytes are joined. */
const SMALL = 1024

/**
 * A request whose unread body takes little more memory than its bytes. A stream buffers 64 KiB in
 * any number of chunks, and a chunk takes about 400 bytes in addition to its content, so a body
 * that is sent byte by byte would take 25 MB.
 */
export class CompactRequest extends IncomingMessage {
  #small: Buffer[] | null = null
  #length = 0

  /**
   * Called with each chunk by Node's parser. All chunks of one read from the socket arrive before
   * the next immediate.
   */
  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    // A stream that is being read has an empty buffer and passes each chunk on at once.
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

/**
 * Returns the values of a header, one for each time it was sent. Node's parsed headers join them,
 * or drop all but one.
 *
 * @param rawHeaders names and values, alternating
 * @param name in lower case
 */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const field = rawHeaders[index]
    // Comparing lengths first avoids a lower-case copy of nearly every name.
    if (field?.length === name.length && field.toLowerCase() === name)
      values.push(rawHeaders[index + 1] ?? '')
  }
  return values
}
