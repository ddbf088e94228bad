import type { FastifyInstance, onResponseHookHandler } from 'fastify'
import type { Metrics } from './metrics.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Name under which requests of the route are counted; method and path where it has none. */
    operation?: string
  }
}

/**
 * Counts every request by the operation it names, and measures it. Which series a request belongs to is settled when
 * its route is added. To be called before the first one is.
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
