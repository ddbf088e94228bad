import type { IncomingMessage } from 'node:http'
import { Writable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { ServiceError } from '../errors.ts'
import type { GitService } from '../git/http-backend.ts'
import { BROKEN } from '../http/linger.ts'

/** git's own limit for what it keeps in memory of a request to fetch (`http.maxRequestBuffer`). */
const FETCH_BYTES = 10 * 1024 * 1024

/** Largest request body in bytes. @param maxBytes of a push */
export function bodyLimit(service: GitService, maxBytes: number): number {
  return service === 'git-upload-pack' ? Math.min(FETCH_BYTES, maxBytes) : maxBytes
}

/**
 * Judges a body by its headers, before a byte of it is read.
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
    `Send the body as "Content-Type: ${type}", as it is or with "Content-Encoding: gzip".`,
  )
}

/**
 * Passes a body on to git, unzipped, no faster than git takes it. What comes after git has had enough is thrown away,
 * since a client sends all before it looks at the answer.
 *
 * @param limit largest body in bytes, counted while reading and as unzipped
 * @returns when the client has sent all and git has taken it
 * @throws ServiceError `body_too_large`, `body_not_gzip`, or `malformed_request` when the client went away
 */
export function passBody(request: IncomingMessage, input: Writable | null, limit: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const sink = gitInput(input, limit).on('finish', resolve).on('error', reject)
  for (const event of ['close', BROKEN]) {
    request.once(event, () => {
      if (!request.complete) reject(new ServiceError('malformed_request'))
    })
  }
  if (encodingOf(request.headers) === 'gzip') {
    const gunzip = createGunzip().on('error', (cause) => {
      request.unpipe(gunzip)
      reject(new ServiceError('body_not_gzip', undefined, { cause }))
    })
    request.pipe(gunzip).pipe(sink)
  } else {
    request.pipe(sink)
  }
  return promise
}

function gitInput(input: Writable | null, limit: number): Writable {
  let length = 0
  let taken = input !== null
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      length += chunk.length
      if (length > limit) return done(tooLarge(limit))
      if (!taken || !input?.writable) return done()
      input.write(chunk, (error) => {
        if (error) taken = false
        done()
      })
    },
    final(done) {
      input?.end()
      done()
    },
  })
}

/** null: one that is not understood. */
function encodingOf(headers: IncomingMessage['headers']): 'identity' | 'gzip' | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() || 'identity'
  if (encoding === 'identity') return encoding
  return encoding === 'gzip' || encoding === 'x-gzip' ? 'gzip' : null
}

function tooLarge(limit: number): ServiceError {
  return new ServiceError('body_too_large', `The body is larger than ${limit} bytes.`)
}
