import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../errors.ts'

/** Length of a measurement, and its resolution, in milliseconds. */
const INTERVAL = 500
const RESOLUTION = 10

const OVERLOADED = 'The server is overloaded. Try again in a few seconds.'

/**
 * Answers 503 with `Retry-After` while the event loop lags. Requests accepted then would be
 * answered too late and delay all others further. A server that is merely busy lags by
 * milliseconds, and a single long pause, such as a slow disk, is over before it could be acted on.
 * Call it before adding routes.
 *
 * @param maxDelay highest mean delay of the event loop in each of the last two half seconds, in
 * milliseconds
 * @param onShed called for each refused request
 */
export function shedLoad(app: FastifyInstance, maxDelay: number, onShed: () => void): void {
  let lagged = false
  let overloaded = false
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION })
  delay.enable()
  let began = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    // Without a sample the event loop was blocked for the whole interval.
    const lags = (delay.count === 0 ? now - began : delay.mean / 1e6 - RESOLUTION) > maxDelay
    overloaded = lags && lagged
    lagged = lags
    began = now
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
