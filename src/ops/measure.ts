import type { FastifyInstance, onResponseHookHandler } from 'fastify'
import { statusOf } from '../errors.ts'
import type { Metrics } from './metrics.ts'

/**
 * Counts and times every request by operation. Call it before adding routes: each route's series is
 * chosen when it is added.
 */
export function measureRequests(app: FastifyInstance, metrics: Metrics): void {
  app.addHook('onRoute', (route) => {
    const { operation = `${route.method} ${route.url}`, operationOf } = route.config ?? {}
    const observers = new Map([[operation, metrics.operation(operation)]])
    const measure: onResponseHookHandler = (request, reply, done) => {
      const name = operationOf?.(request) ?? operation
      const observe = observers.get(name) ?? metrics.operation(name)
      observers.set(name, observe)
      observe(request.refusal ? statusOf(request.refusal.code) : reply.statusCode, reply.elapsedTime)
      done()
    }
    route.onResponse = [route.onResponse ?? [], measure].flat()
  })
  const observeUnknown = metrics.operation('unknown')
  app.addHook('onResponse', (request, reply, done) => {
    if (request.is404) observeUnknown(reply.statusCode, reply.elapsedTime)
    done()
  })
}
