import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RefusalKind } from '../domain/ref-updates.ts'
import { type ErrorCode, ServiceError, statusOf } from '../errors.ts'
import { asServiceError } from '../replies/error-replies.ts'
import { QueueFull } from '../schedule/fair-queue.ts'
import { packet } from './push/pkt-line.ts'

/** Errors of a body, which no protocol can tell: it has not arrived as it should. */
const OF_BODIES: readonly ErrorCode[] = [
  ...(['malformed_request', 'body_not_gzip', 'too_slow', 'body_too_large', 'media_type_wrong'] as const),
]

/** Returns the error to answer with: no place for git means that the server is busy. */
export function asGitError(error: unknown): ServiceError {
  if (error instanceof QueueFull) return new ServiceError('git_busy', undefined, { cause: error })
  return asServiceError(error)
}

/**
 * Returns the reason to give in the protocol of git, since git does not print the body of a refused
 * POST. The request is logged and counted as if the answer had the status of the error.
 *
 * @throws the error if HTTP must tell it
 */
export function tellInProtocol(
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
  cause: unknown,
): string {
  const error = asGitError(cause)
  if (OF_BODIES.includes(error.code)) throw error
  request.refusal = error
  if (statusOf(error.code) >= 500) reply.server.logError(request, error)
  return error.message
}

/** Returns the kind of what refuses a push as a whole. */
export function kindOfError({ code }: ServiceError): RefusalKind {
  if (code === 'no_room') return 'no room'
  return statusOf(code) >= 500 ? 'unavailable' : 'no access'
}

/** Returns an answer to a fetch that git prints as "remote error" (gitprotocol-pack(5)). */
export function refuseFetch(reason: string): Buffer {
  return Buffer.from(packet(`ERR ${Buffer.from(reason).toString('latin1')}`), 'latin1')
}
