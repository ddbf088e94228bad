import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { ServiceError } from '../errors.ts'
import type { GitService } from '../git/http-backend.ts'
import { tooLarge } from '../http/body.ts'
import { abortBody, BODY_ABORTED, isBodyAborted } from '../http/lingering-close.ts'

/** git's own limit for a fetch request in memory (default of `http.maxRequestBuffer`). */
const FETCH_BYTES = 10 * 1024 * 1024

/** The body of a request to git. */
export interface GitBody {
  /** Aborts when the client will not send the rest. null if the whole body has arrived. */
  readonly lost: AbortSignal | null
  /** Writes the body to git. Resolves when the client has sent all of it and git has read it. */
  passTo(input: Writable | null): Promise<void>
  /** Frees the memory of a body that was not passed to git. */
  discard(): void
}

/** The body of a request without one. */
export const NO_BODY: GitBody = { lost: null, async passTo() {}, discard() {} }

/** Returns the size limit of a request body in bytes. @param maxBytes limit for a push */
export function bodyLimit(service: GitService, maxBytes: number): number {
  return service === 'git-upload-pack' ? Math.min(FETCH_BYTES, maxBytes) : maxBytes
}

/**
 * Checks the headers that describe a body, before any of it is read.
 *
 * @param limit largest body in bytes
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

/**
 * A request body while it arrives. The body is lost when the client disconnects or is cut off, and when the request is
 * answered before the end of the body. Methods then throw the reason of `lost`: ServiceError `malformed_request` or
 * `too_slow`.
 */
export class ArrivingBody {
  readonly #request: IncomingMessage
  readonly #loss = new AbortController()
  readonly #failure: Promise<never>

  /** Starts to receive the body. Sends `100 Continue` if the client waits for it. */
  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request
    this.#failure = new Promise((_resolve, reject) => {
      this.lost.addEventListener('abort', () => reject(this.lost.reason))
    })
    // Avoids an unhandled rejection if the body is lost while no method is waiting for it.
    this.#failure.catch(() => {})
    const lose = () => this.#loss.abort(new ServiceError('malformed_request'))
    if (isBodyAborted(request) || request.destroyed) lose()
    request.once(BODY_ABORTED, lose).once('close', () => {
      // A complete body that was not read yet is lost too when the stream is destroyed.
      if (!request.readableEnded) lose()
    })
    response.once('close', lose)
    if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue()
  }

  /** Aborts when the rest of the body will not arrive. */
  get lost(): AbortSignal {
    return this.#loss.signal
  }

  /** Stops waiting for the rest of the body because the client is too slow. */
  cutOff(): void {
    this.#loss.abort(new ServiceError('too_slow'))
    abortBody(this.#request)
  }

  /** Waits for the first byte, or for the end of an empty body. Reads no more than the stream's buffer holds. */
  async begin(): Promise<void> {
    const begun = Promise.withResolvers<void>()
    const request = this.#request.on('readable', begun.resolve).on('end', begun.resolve)
    try {
      await Promise.race([begun.promise, this.#failure])
    } finally {
      request.off('readable', begun.resolve).off('end', begun.resolve)
    }
  }

  /**
   * Writes the decompressed body to `sink`, with backpressure.
   *
   * @throws ServiceError `body_not_gzip`, the error of `sink`, and the reason of `lost`
   */
  async pipe(sink: Writable): Promise<void> {
    const request = this.#request
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    sink.on('finish', resolve).on('error', reject)
    if (encodingOf(request.headers) === 'gzip') {
      const gunzip = createGunzip().on('error', (cause) => {
        request.unpipe(gunzip)
        reject(new ServiceError('body_not_gzip', undefined, { cause }))
      })
      request.pipe(gunzip).pipe(sink)
    } else {
      request.pipe(sink)
    }
    await Promise.race([promise, this.#failure])
  }
}

/** Returns null for an encoding that is not supported. */
function encodingOf(headers: IncomingMessage['headers']): 'identity' | 'gzip' | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() || 'identity'
  if (encoding === 'identity') return encoding
  return encoding === 'gzip' || encoding === 'x-gzip' ? 'gzip' : null
}
