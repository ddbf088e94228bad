import type { FastifyInstance, onResponseHookHandler } from 'fastify'
import type { Metrics } from './metrics.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Name of the route in metrics. Default: method and path. */
    operation?: string
  }
}

/**
 * Counts and times every request by operation. Call it before adding routes: each route's series is chosen when it is
 * added.
 */
export function measureRequests(app: FastifyInstance, metrics: Metrics): void {
  app.addHook('onRoute', (route) => {
    const observe = metrics.operation(route.config?.operation ?? `${route.method} ${route.url}`)
    const measure: onResponseHookHandler = (_request, reply, done) => {
      observe(reply.statusCode, reply.elapsedTime)
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
