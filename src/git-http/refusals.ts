import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RefRefusal, RefusalKind, RefusedRef } from '../domain/ref-updates.ts'
import { type ErrorCode, ServiceError, statusOf } from '../errors.ts'
import { decodeLatin1 } from '../git/run-git.ts'
import { whoSent } from '../replies/client.ts'
import { asServiceError } from '../replies/error-replies.ts'
import { recheckAccess } from '../replies/recheck-access.ts'
import { QueueFull } from '../schedule/fair-queue.ts'
import { truncate } from '../util/truncate.ts'
import type { PushRequest } from './push/commands.ts'
import { packet } from './push/pkt-line.ts'
import { reportRefusal } from './push/report.ts'
import type { GitRequest } from './service.ts'

/** Errors of a body, which no protocol can tell: it has not arrived as it should. */
const OF_BODIES: readonly ErrorCode[] = [
  ...(['malformed_request', 'body_not_gzip', 'too_slow', 'body_too_large', 'media_type_wrong'] as const),
]
/** Maximum number of refs of a push that are logged. */
const MAX_LOGGED = 10
/** Characters of a name or a reason. */
const MAX_TEXT = 300

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
function kindOfError({ code }: ServiceError): RefusalKind {
  if (code === 'no_room') return 'no room'
  return statusOf(code) >= 500 ? 'unavailable' : 'no access'
}

/** Returns an answer to a fetch that git prints as "remote error" (gitprotocol-pack(5)). */
export function refuseFetch(reason: string): Buffer {
  return Buffer.from(packet(`ERR ${Buffer.from(reason).toString('latin1')}`), 'latin1')
}

/** Refuses pushes in the report that git would give, and counts and logs what was refused. */
export class PushRefusals {
  readonly #onRefused: (kind: RefusalKind) => void

  /** @param onRefused called once for each kind of reason why refs of a push were refused */
  constructor(onRefused: (kind: RefusalKind) => void) {
    this.#onRefused = onRefused
  }

  /** Counts and logs refs that were refused, which no status of an answer tells. */
  record({ request, pusher }: GitRequest, refused: readonly RefusedRef[]): void {
    for (const kind of new Set(refused.map((it) => it.kind))) this.#onRefused(kind)
    const push = { reqId: request.id, ...whoSent(request), repository: pusher?.repositoryName }
    for (const { ref, reason, kind } of refused.slice(0, MAX_LOGGED)) {
      const fields = { ref: truncate(decodeLatin1(ref), MAX_TEXT), kind, reason: truncate(reason, MAX_TEXT) }
      request.server.log.info({ ...push, ...fields }, 'push refused')
    }
    const more = refused.length - MAX_LOGGED
    if (more > 0) request.server.log.info(push, `push refused: and ${more} more refs`)
  }

  /** Refuses a push as a whole. Returns the report that git would give. */
  refuse(call: GitRequest, request: PushRequest, refusal: RefRefusal): Buffer {
    this.record(
      call,
      request.commands.map(({ ref }) => ({ ref, ...refusal })),
    )
    return reportRefusal(request, refusal.reason)
  }

  /** As `refuse`, of a push that failed. @throws the error if HTTP must tell it */
  async fail(call: GitRequest, request: PushRequest, cause: unknown): Promise<Buffer> {
    const error = asGitError(await recheckAccess(cause, call.authorizeAgain))
    const reason = tellInProtocol(call, error)
    return this.refuse(call, request, { reason, kind: kindOfError(error) })
  }
}
