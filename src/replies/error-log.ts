import type { FastifyInstance } from 'fastify'
import { type ErrorCode, statusOf } from '../errors.ts'
import { whoSent } from './client.ts'

/** The server works as it should, and has more to do than it can. */
const BUSY: readonly ErrorCode[] = ['git_busy', 'no_room', 'authentication_busy']
const INTERNAL = 500
/** Milliseconds between two lines about an unavailable service. */
export const QUIET = 5_000

/**
 * Adds `logError` to the app. An internal error is logged each time, with its stack. Others may be
 * the same for every request: while the service is unavailable, or when somebody sends what a
 * provider of sign-ins would. So at most one line is logged every five seconds for each status,
 * with the number of errors since the last one: a warning if the server works as it should.
 */
export function addErrorLog(app: FastifyInstance): void {
  const windows = new Map<number, { until: number; silenced: number }>()
  app.decorate('logError', (request, error) => {
    const details = { reqId: request.id, ...whoSent(request) }
    const err = error.cause ?? error
    const status = statusOf(error.code)
    if (status === INTERNAL) {
      app.log.error({ ...details, err }, error.code)
      return
    }
    const window = windows.get(status)
    if (window && performance.now() < window.until) {
      window.silenced++
      return
    }
    windows.set(status, { until: performance.now() + QUIET, silenced: 0 })
    const level = status < INTERNAL || BUSY.includes(error.code) ? 'warn' : 'error'
    app.log[level]({ ...details, err, silenced: window?.silenced ?? 0 }, error.code)
  })
}
