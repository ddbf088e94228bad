import { randomInt } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { ServiceError, statusOf, TryLater } from '../errors.ts'
import { hasCode, Unavailable } from '../util/expected-errors.ts'

/** Seconds after which a client may retry while the database or a repository is unavailable. */
const RETRY_AFTER = 2
/**
 * The same without room for a push: at random, so that two large pushes do not displace each other
 * again.
 */
const RETRY_WITH_ROOM = [10, 151] as const

/** Converts any error to a ServiceError. An unknown error becomes `internal`. */
export function asServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error
  if (error instanceof Unavailable) return new ServiceError('unavailable', undefined, { cause: error })
  if (hasCode(error, 'FST_ERR_BAD_URL')) return new ServiceError('malformed_url')
  return new ServiceError('internal', undefined, { cause: error })
}

/**
 * Sets the status and headers of an error; they are the same for JSON and pages. Logs server
 * errors, whose messages reveal no internals.
 */
export function applyErrorHeaders(reply: FastifyReply, error: ServiceError): void {
  const status = statusOf(error.code)
  if (status >= 500) reply.server.logError(reply.request, error)
  // An answer that failed half-way may already have a validator.
  reply.code(status).removeHeader('etag').header('cache-control', 'no-store')
  if (status === 503)
    reply.header('retry-after', error.code === 'no_room' ? randomInt(...RETRY_WITH_ROOM) : RETRY_AFTER)
  if (error instanceof TryLater) reply.header('retry-after', error.retryAfter)
}

/** Sends an error as `{"error": message}`. @param challenge value of `WWW-Authenticate` in a 401 */
export function sendError(reply: FastifyReply, cause: unknown, challenge: string): FastifyReply {
  const error = asServiceError(cause)
  applyChallenge(reply, error, challenge)
  return reply.type('application/json; charset=utf-8').send(JSON.stringify({ error: error.message }))
}

/** As `sendError`, as a line of text: git prints no other kind, each line after `remote:`. */
export function sendTextError(reply: FastifyReply, cause: unknown, challenge: string): FastifyReply {
  const error = asServiceError(cause)
  applyChallenge(reply, error, challenge)
  return reply.type('text/plain; charset=utf-8').send(`${error.message}\n`)
}

function applyChallenge(reply: FastifyReply, error: ServiceError, challenge: string): void {
  applyErrorHeaders(reply, error)
  if (statusOf(error.code) === 401) reply.header('www-authenticate', challenge)
}
