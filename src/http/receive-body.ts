import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { ServiceError } from '../errors.ts'
import { abortBody, BODY_ABORTED, hasBody, isBodyAborted } from './lingering-close.ts'

/*
 * What all bodies need, JSON, forms, fetches and pushes: limits of length and time, and an end when
 * the client disconnects. `body.ts` reads small ones into memory, `git-http/body.ts` those of git.
 */

/** How fast a body must arrive: `bytes` in every `window` of milliseconds, counted after decompression. */
export interface Pace {
  bytes: number
  window: number
  /** Milliseconds after the request in which it may begin: see `BodyOptions.hasBegun`. */
  first: number
}

/** How a body is compressed. */
export type Encoding = 'identity' | 'gzip'

/** Bytes that are decompressed at once: each time takes a turn of the event loop. */
const AT_ONCE = 32 * 1024

/** Returns the pace of a body that must arrive within so many milliseconds. */
export function within(timeout: number): Pace {
  return { bytes: Number.POSITIVE_INFINITY, window: timeout, first: 0 }
}

/** Returns the error for a body larger than `limit` bytes. */
export function tooLarge(limit: number): ServiceError {
  return new ServiceError('body_too_large', `The body is larger than ${limit} bytes.`)
}

/** Checks the declared length of a body, if there is one. @throws ServiceError `body_too_large` */
export function checkDeclaredLength(headers: IncomingHttpHeaders, limit: number): void {
  if (Number(headers['content-length'] ?? 0) > limit) throw tooLarge(limit)
}

/** Returns how a body is compressed; null if that is not supported. */
export function encodingOf(headers: IncomingHttpHeaders): Encoding | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() || 'identity'
  if (encoding === 'identity') return encoding
  return encoding === 'gzip' || encoding === 'x-gzip' ? 'gzip' : null
}

/** Returns a stream that decompresses gzip. */
export function gunzipInTurns() {
  return createGunzip({ chunkSize: AT_ONCE })
}

/**
 * Accepts the body of a request: sends `100 Continue` if the client waits for it.
 *
 * @returns whether the body can arrive; false if the client has disconnected
 */
export function acceptBody(request: IncomingMessage, response: ServerResponse): boolean {
  if (isBodyAborted(request) || (request.destroyed && hasBody(request))) return false
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue()
  return true
}

/** How a body is received. */
export interface BodyOptions {
  /** Size of the largest body, counted while reading and after decompression. */
  maxBytes: number
  pace: Pace
  /** How it is decompressed. Default: not at all. */
  encoding?: Encoding
  /** Receives each part. */
  take?(chunk: Buffer): void
  /** Where it is stored; destroyed unless all of it arrives. */
  sink?: Writable
  /** Whether it has begun to arrive, so that pauses count. Default: with its first byte. */
  hasBegun?(): boolean
  /** Ends the reading with its reason. */
  signal?: AbortSignal
}

/**
 * Accepts and receives a whole body, and waits until its sink has finished.
 *
 * @throws ServiceError `body_too_large`, `body_not_gzip`, `too_slow`, or `malformed_request` if the
 * client disconnects; the errors of `sink`; the reason of `signal`
 */
export async function receiveBody(
  request: IncomingMessage,
  response: ServerResponse,
  { maxBytes, pace, encoding, take, sink, hasBegun, signal }: BodyOptions,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const lose = () => reject(new ServiceError('malformed_request'))
  if (!acceptBody(request, response)) lose()
  // The client disconnected before the end of the body, or sent something that is not HTTP.
  request.once(BODY_ABORTED, lose).once('close', () => {
    if (!request.readableEnded) lose()
  })
  response.once('close', lose)
  const end = () => reject(signal?.reason)
  if (signal?.aborted) end()
  signal?.addEventListener('abort', end)

  let length = 0
  const count = (chunk: Buffer) => {
    length += chunk.length
    if (length > maxBytes) reject(tooLarge(maxBytes))
    else take?.(chunk)
  }
  const gunzip = encoding === 'gzip' ? gunzipInTurns() : null
  gunzip?.on('error', (cause) => reject(new ServiceError('body_not_gzip', undefined, { cause })))
  const source = gunzip ? request.pipe(gunzip) : request
  source.on('data', count)
  if (sink) source.pipe(sink).once('finish', resolve).on('error', reject)
  else source.once('end', resolve)

  let earlier = 0
  let isOpen = true
  const since = performance.now()
  const cutSlow = () => {
    // Bytes of the connection would count what adds nothing, such as empty blocks of gzip.
    const isSlow = length - earlier < pace.bytes
    earlier = length
    const isEarly = performance.now() - since < pace.first && !(hasBegun?.() ?? length > 0)
    // A body that has arrived is not too slow, nor one that waits for its sink.
    if (!isOpen || request.complete || sink?.writableNeedDrain || !isSlow || isEarly) return
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
    sink?.destroy()
    throw error
  } finally {
    isOpen = false
    clearInterval(timer)
    response.off('close', lose)
    signal?.removeEventListener('abort', end)
  }
}
