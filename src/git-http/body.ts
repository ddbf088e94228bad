import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { ServiceError } from '../errors.ts'
import { tooLarge } from '../http/body.ts'
import { abortBody, BODY_ABORTED, hasBody, isBodyAborted } from '../http/lingering-close.ts'
import type { GitService } from './backend.ts'

/** git's own limit for a fetch request in memory (default of `http.maxRequestBuffer`). */
const FETCH_BYTES = 10 * 1024 * 1024
/** Bytes that are decompressed at once: each time takes a turn of the event loop. */
const GUNZIP_AT_ONCE = 32 * 1024

/**
 * How fast a body must arrive: `bytes` in every `window` of milliseconds, counted after
 * decompression.
 */
export interface Pace {
  bytes: number
  window: number
}

/** Returns the size limit of a request body in bytes. @param maxBytes limit for a push */
export function bodyLimit(service: GitService, maxBytes: number): number {
  return service === 'git-upload-pack' ? Math.min(FETCH_BYTES, maxBytes) : maxBytes
}

/**
 * Checks the headers of a body.
 *
 * @throws ServiceError `body_too_large` by its declared length, then `media_type_wrong`
 */
export function checkGitBodyHeaders({ headers }: IncomingMessage, service: GitService, limit: number): void {
  if (Number(headers['content-length'] ?? 0) > limit) throw tooLarge(limit)
  const type = `application/x-${service}-request`
  const encoding = encodingOf(headers)
  if (headers['content-type']?.trim().toLowerCase() === type && encoding !== null) return
  throw new ServiceError(
    'media_type_wrong',
    `Send the body with "Content-Type: ${type}", uncompressed or with "Content-Encoding: gzip".`,
  )
}

/** How a body is read. */
interface BodyOptions {
  /** Where it is stored; destroyed unless all of it arrives. */
  sink: Writable
  /** Size of the largest body, counted while reading and after decompression. */
  maxBytes: number
  pace: Pace
  /** Receives the length of each part, and throws if there is no room for it. */
  take(length: number): void
  /** Ends the reading with its reason. */
  signal: AbortSignal
}

/**
 * Reads a whole body, decompressed. Sends `100 Continue` if the client waits for it.
 *
 * @throws ServiceError `body_too_large`, `body_not_gzip`, `too_slow`, or `malformed_request` if the
 * client disconnects; the errors of `take` and of `sink`; the reason of `signal`
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  { sink, maxBytes, pace, take, signal }: BodyOptions,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const lose = () => reject(new ServiceError('malformed_request'))
  if (isBodyAborted(request) || (request.destroyed && hasBody(request))) lose()
  request.once(BODY_ABORTED, lose).once('close', () => {
    if (!request.readableEnded) lose()
  })
  response.once('close', lose)
  const end = () => reject(signal.reason)
  if (signal.aborted) end()
  signal.addEventListener('abort', end)
  sink.once('finish', resolve).on('error', reject)

  if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue()

  let length = 0
  const count = (chunk: Buffer) => {
    length += chunk.length
    try {
      if (length > maxBytes) throw tooLarge(maxBytes)
      take(chunk.length)
    } catch (error) {
      reject(error)
    }
  }
  const gunzip = encodingOf(request.headers) === 'gzip' ? createGunzip({ chunkSize: GUNZIP_AT_ONCE }) : null
  gunzip?.on('error', (cause) => reject(new ServiceError('body_not_gzip', undefined, { cause })))
  const source = gunzip ? request.pipe(gunzip) : request
  source.on('data', count).pipe(sink)

  let earlier = 0
  const cutSlow = () => {
    // Bytes of the connection would count what adds nothing, such as empty blocks of gzip.
    const isSlow = length - earlier < pace.bytes
    earlier = length
    if (!isSlow) return
    reject(new ServiceError('too_slow'))
    abortBody(request)
  }
  // If the event loop was blocked, what has arrived meanwhile is read first.
  const timer = setInterval(() => setImmediate(cutSlow), pace.window)
  try {
    await promise
  } catch (error) {
    // What the client still sends is discarded with the answer.
    request.off('data', count).unpipe()
    gunzip?.destroy()
    sink.destroy()
    throw error
  } finally {
    clearInterval(timer)
    signal.removeEventListener('abort', end)
  }
}

/** Returns null for an encoding that is not supported. */
function encodingOf(headers: IncomingMessage['headers']): 'identity' | 'gzip' | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() || 'identity'
  if (encoding === 'identity') return encoding
  return encoding === 'gzip' || encoding === 'x-gzip' ? 'gzip' : null
}
