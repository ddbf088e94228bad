import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered also while the server is overloaded. */
    alwaysServed?: boolean
  }
}

/** How often it is judged whether the server is overloaded, and of what resolution the figures are. Milliseconds. */
const INTERVAL = 500
const RESOLUTION = 10

const OVERLOADED = 'The server is overloaded. Try again in a few seconds.'

/**
 * Answers 503 with `Retry-After` while the event loop lags: what arrives then would be answered too late for anybody
 * to wait for it, and taking it on would delay everything else further. A server that is merely busy lags by
 * milliseconds, and one long pause, of a slow disk for example, is over by the time it could be acted upon. To be
 * called before the first route is added.
 *
 * @param maxDelay milliseconds by which the event loop may lag, on average over each of the last two half seconds
 * @param onShed told of each request that is refused
 */
export function shedLoad(app: FastifyInstance, maxDelay: number, onShed: () => void): void {
  let lagged = false
  let overloaded = false
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION })
  delay.enable()
  const timer = setInterval(() => {
    // No sample at all: it has not turned often enough for one.
    const lags = delay.count === 0 || delay.mean / 1e6 - RESOLUTION > maxDelay
    overloaded = lags && lagged
    lagged = lags
    delay.reset()
  }, INTERVAL).unref()
  app.addHook('onClose', () => {
    clearInterval(timer)
    delay.disable()
  })
  app.addHook('onRequest', (request, _reply, done) => {
    if (!overloaded || request.routeOptions.config.alwaysServed) return done()
    onShed()
    throw new ServiceError('unavailable', OVERLOADED)
  })
}
