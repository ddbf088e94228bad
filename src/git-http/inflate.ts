import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ServiceError } from '../errors.ts'
import { gunzipInTurns, tooLarge } from '../http/receive-body.ts'
import { hasCode, isSystemError } from '../util/expected-errors.ts'

/** Decompresses a whole body. Throws as `Body.open`. */
export async function inflate(
  zipped: Readable,
  content: Writable,
  maxBytes: number,
  signal: AbortSignal,
): Promise<void> {
  let length = 0
  async function* count(chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      length += chunk.length
      if (length > maxBytes) throw tooLarge(maxBytes)
      yield chunk
    }
  }
  try {
    await pipeline(zipped, gunzipInTurns(), count, content, { signal })
  } catch (cause) {
    signal.throwIfAborted()
    if (hasCode(cause, 'Z_DATA_ERROR', 'Z_BUF_ERROR'))
      throw new ServiceError('body_not_gzip', undefined, { cause })
    if (isSystemError(cause)) throw new ServiceError('git_busy', undefined, { cause })
    throw cause
  }
}
