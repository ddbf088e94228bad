import type { FileHandle } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { ServiceError } from '../errors.ts'
import { tooLarge } from '../http/body.ts'
import { abortBody, BODY_ABORTED, hasBody, isBodyAborted } from '../http/lingering-close.ts'
import type { GitService } from './backend.ts'

/** git's own limit for a fetch request in memory (default of `http.maxRequestBuffer`). */
const FETCH_BYTES = 10 * 1024 * 1024
/** Bytes that are written at once: fewer make a push of 100 MB a fifth slower. */
const WRITE_BATCH = 1024 * 1024

/** A whole request body. */
export interface Body {
  /** What git reads: from memory, or from the start of a file. */
  content: Buffer | FileHandle
  close(): void
}

/** How fast a body must arrive: `bytes` in every `window` of milliseconds. */
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
  /** Where it is stored, and which is closed with it; null: in memory. */
  file: FileHandle | null
  /** Size of the largest body, counted while reading and after decompression. */
  maxBytes: number
  pace: Pace
  /** Receives the length of each part, and throws if there is no room for it. */
  take(length: number): void
  /** Called once, when the body is closed or could not be read. */
  onClose(): void
}

/**
 * Reads a whole body, decompressed. Sends `100 Continue` if the client waits for it.
 *
 * @throws ServiceError `body_too_large`, `body_not_gzip`, `too_slow`, or `malformed_request` if the
 * client disconnects; the errors of `take` and of the file
 */
export async function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  { file, maxBytes, pace, take, onClose }: BodyOptions,
): Promise<Body> {
  const chunks: Buffer[] = []
  // Written at offsets, so that the position of the file, from which git reads, stays at its start.
  const sink =
    file?.createWriteStream({ start: 0, autoClose: false, highWaterMark: WRITE_BATCH }) ??
    new Writable({
      autoDestroy: false,
      write(chunk: Buffer, _encoding, done) {
        chunks.push(chunk)
        done()
      },
    })

  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const lose = () => reject(new ServiceError('malformed_request'))
  if (isBodyAborted(request) || (request.destroyed && hasBody(request))) lose()
  request.once(BODY_ABORTED, lose).once('close', () => {
    if (!request.readableEnded) lose()
  })
  response.once('close', lose)
  sink.once('finish', resolve).once('close', onClose).on('error', reject)

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
  const gunzip = encodingOf(request.headers) === 'gzip' ? createGunzip() : null
  gunzip?.on('error', (cause) => reject(new ServiceError('body_not_gzip', undefined, { cause })))
  const source = gunzip ? request.pipe(gunzip) : request
  source.on('data', count).pipe(sink)

  const { socket } = request
  let arrived = socket.bytesRead
  const cutSlow = () => {
    const isSlow = socket.bytesRead - arrived < pace.bytes
    arrived = socket.bytesRead
    if (!isSlow) return
    reject(new ServiceError('too_slow'))
    abortBody(request)
  }
  // If the event loop was blocked, what has arrived meanwhile is read first.
  const timer = setInterval(() => setImmediate(cutSlow), pace.window)
  try {
    await promise
    return { content: file ?? Buffer.concat(chunks.splice(0)), close: () => void sink.destroy() }
  } catch (error) {
    // What the client still sends is discarded with the answer.
    request.off('data', count).unpipe()
    gunzip?.destroy()
    sink.destroy()
    throw error
  } finally {
    clearInterval(timer)
  }
}

/** Returns null for an encoding that is not supported. */
function encodingOf(headers: IncomingMessage['headers']): 'identity' | 'gzip' | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() || 'identity'
  if (encoding === 'identity') return encoding
  return encoding === 'gzip' || encoding === 'x-gzip' ? 'gzip' : null
}
