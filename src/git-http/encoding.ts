import type { IncomingMessage } from 'node:http'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { ServiceError } from '../errors.ts'
import { tooLarge } from '../http/body.ts'
import { hasCode, isSystemError } from '../util/expected-errors.ts'

/** Bytes that are decompressed at once: each time takes a turn of the event loop. */
const AT_ONCE = 32 * 1024

export type Encoding = 'identity' | 'gzip'

/** Returns null for an encoding that is not supported. */
export function encodingOf(headers: IncomingMessage['headers']): Encoding | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() || 'identity'
  if (encoding === 'identity') return encoding
  return encoding === 'gzip' || encoding === 'x-gzip' ? 'gzip' : null
}

/** Returns a stream that decompresses gzip. */
export function gunzipInTurns() {
  return createGunzip({ chunkSize: AT_ONCE })
}

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
