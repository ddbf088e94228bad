import type { IncomingMessage } from 'node:http'

/** Chunks smaller than this many bytes are joined. */
const SMALL = 1024

/**
 * Makes the unread body of a request take little more memory than its bytes. A stream buffers 64 KiB in any number of chunks,
 * and a chunk takes about 400 bytes in addition to its content, so a body that is sent byte by byte would take 25 MB.
 */
export function joinSmallChunks(request: IncomingMessage): void {
  const push = request.push.bind(request)
  let small: Buffer[] = []
  let length = 0
  const join = () => {
    if (length === 0) return
    const joined = Buffer.concat(small, length)
    small = []
    length = 0
    push(joined)
  }
  // Called with each chunk by Node's parser. All chunks of one read from the socket arrive before the next immediate.
  request.push = (chunk: unknown, encoding?: BufferEncoding) => {
    // A stream that is being read has an empty buffer and passes each chunk on at once.
    if (request.readableLength === 0 || !Buffer.isBuffer(chunk) || chunk.length >= SMALL) {
      join()
      return push(chunk, encoding)
    }
    if (length === 0) setImmediate(join)
    small.push(chunk)
    length += chunk.length
    return request.readableLength + length < request.readableHighWaterMark
  }
}
