import type { IncomingMessage, ServerResponse } from 'node:http'
import { finished, Writable } from 'node:stream'
import { ServiceError } from '../errors.ts'
import { tooLarge } from '../http/body.ts'
import type { SharedBudget } from '../util/shared-budget.ts'
import { ArrivingBody, type GitBody } from './body.ts'

interface FetchBodyLimits {
  /** Largest body in bytes, counted while reading and after decompression. */
  bytes: number
  /** Milliseconds in which the whole body must arrive. */
  timeout: number
  /** Bytes that all bodies in memory share. */
  memory: SharedBudget
}

/** Bytes that a chunk takes in addition to its content. It matters if a client sends byte by byte. */
const CHUNK_OVERHEAD = 512

/**
 * Reads the whole body of a fetch into memory, so that git does not wait for the client. The memory is released when git has
 * read the body.
 *
 * @param client address whose share of the memory is used
 * @throws ServiceError `body_too_large`, `body_not_gzip`, `too_slow`, `git_busy` if the memory is used up, or
 * `malformed_request` if the client disconnects
 */
export async function readFetchBody(
  request: IncomingMessage,
  response: ServerResponse,
  client: string,
  { bytes, timeout, memory }: FetchBodyLimits,
): Promise<GitBody> {
  const chunks: Buffer[] = []
  let length = 0
  let held = 0
  const discard = () => {
    chunks.length = 0
    memory.release(client, held)
    held = 0
  }
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      length += chunk.length
      if (length > bytes) return done(tooLarge(bytes))
      const size = chunk.length + CHUNK_OVERHEAD
      if (!memory.take(client, size)) return done(new ServiceError('git_busy'))
      held += size
      chunks.push(chunk)
      done()
    },
  })
  const body = new ArrivingBody(request, response)
  const timer = setTimeout(() => body.cutOff(), timeout)
  try {
    await body.pipe(sink)
  } catch (error) {
    sink.destroy()
    discard()
    throw error
  } finally {
    clearTimeout(timer)
  }
  return {
    lost: null,
    async passTo(input) {
      if (input === null) return discard()
      finished(input, { readable: false }, discard)
      input.end(Buffer.concat(chunks.splice(0)))
    },
    discard,
  }
}
