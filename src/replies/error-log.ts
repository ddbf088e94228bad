import type { FastifyInstance } from 'fastify'
import { type ErrorCode, type ServiceError, statusOf } from '../errors.ts'
import { whoSent } from './client.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Logs a server error (status 500 or above). */
    logError(request: FastifyRequest, error: ServiceError): void
  }
}

/** The server works as it should, and has more to do than it can. */
const BUSY: readonly ErrorCode[] = ['git_busy', 'no_room', 'authentication_busy']
/** Milliseconds between two lines about an unavailable service. */
export const QUIET = 5_000

/**
 * Adds `logError` to the app. An internal error is logged each time, with its stack. While the
 * service is unavailable, every request fails with the same error, so at most one line is logged
 * every five seconds, with the number of errors since the last one: a warning if it is busy.
 */
export function addErrorLog(app: FastifyInstance): void {
  let quietUntil = Number.NEGATIVE_INFINITY
  let silenced = 0
  app.decorate('logError', (request, error) => {
    const details = { reqId: request.id, ...whoSent(request) }
    const err = error.cause ?? error
    if (statusOf(error.code) !== 503) {
      app.log.error({ ...details, err }, error.code)
      return
    }
    if (performance.now() < quietUntil) {
      silenced++
      return
    }
    quietUntil = performance.now() + QUIET
    app.log[BUSY.includes(error.code) ? 'warn' : 'error']({ ...details, err, silenced }, error.code)
    silenced = 0
  })
}
