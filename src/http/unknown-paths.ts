import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../errors.ts'

/**
 * Answers 404 at paths that no route has, and 405 with `Allow` where one has the path but not the method, whatever
 * else the request brings. To be called before the first route is added.
 */
export function answerUnknownPaths(app: FastifyInstance): void {
  const routes = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { pattern: patternOf(url), methods: new Set() }
    for (const name of [method].flat()) route.methods.add(name)
    routes.set(url, route)
  })
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done()
    const [path = ''] = request.url.split('?', 1)
    const found = [...routes.values()].filter(({ pattern }) => pattern.test(path))
    if (found.length === 0) throw new ServiceError('path_unknown')
    reply.header('allow', [...new Set(found.flatMap(({ methods }) => [...methods]))].sort().join(', '))
    throw new ServiceError('method_wrong')
  })
}

/** A route's `:name` stands for one segment that is not empty, or for one with a fixed ending, `*` for any rest. */
function patternOf(url: string): RegExp {
  const segments = url.split('/').map((segment) => {
    if (segment === '*') return '.*'
    const fixed = segment.replace(/^:\w+(\(.*\))?/, '').replace(/[.+]/g, '\\$&')
    return segment.startsWith(':') ? `[^/]+${fixed}` : fixed
  })
  return new RegExp(`^${segments.join('/')}$`)
}
