import type { FastifyInstance } from 'fastify'
import { type ServiceError, statusOf } from '../errors.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Logs a fault of the server that the request met. */
    logError(request: FastifyRequest, error: ServiceError): void
  }
}

/** Milliseconds in which one line tells of all requests that could not be answered. */
const QUIET = 5_000

/**
 * Gives the app its log of faults. A mistake of ours is logged each time, with its stack. Where the service is
 * unavailable, every request meets the same fault: the first one in a while is logged, and how many there were since.
 */
export function addErrorLog(app: FastifyInstance): void {
  let quietUntil = Number.NEGATIVE_INFINITY
  let silenced = 0
  app.decorate('logError', ({ id: reqId }, error) => {
    const err = error.cause ?? error
    if (statusOf(error.code) !== 503) {
      app.log.error({ reqId, err }, error.code)
      return
    }
    if (performance.now() < quietUntil) {
      silenced++
      return
    }
    quietUntil = performance.now() + QUIET
    app.log.error({ reqId, err, silenced }, error.code)
    silenced = 0
  })
}
