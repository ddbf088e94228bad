import type { FastifyInstance, RouteOptions } from 'fastify'
import { ServiceError } from '../errors.ts'
import { isReserved } from '../store/names.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** People look at it in a browser: its errors are pages too. */
    page?: boolean
  }
}

/** A path that is known, but not with this method. */
export class WrongMethod extends ServiceError {
  /** Whether it is a page's path. */
  readonly onPage: boolean

  constructor(onPage: boolean) {
    super('method_wrong')
    this.onPage = onPage
  }
}

/**
 * Answers 404 at paths that no route has, and 405 with `Allow` where one has the path but not the method, whatever
 * else the request brings. To be called before the first route is added.
 */
export function answerUnknownPaths(app: FastifyInstance): void {
  const routes: { matches: PathMatcher; options: RouteOptions }[] = []
  app.addHook('onRoute', (options) => {
    routes.push({ matches: pathMatcher(options.url), options })
  })
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done()
    const [path = ''] = request.url.split('?', 1)
    const segments = decodeURI(path).split('/')
    const [, first = ''] = segments
    const found = routes
      .filter(({ matches }) => matches(segments))
      .map(({ options }) => options)
      // The site's own words are no owner: nothing is at such a path with any method.
      .filter(({ url, config }) => !(config?.page && url.startsWith('/:owner') && isReserved(first)))
    if (found.length === 0) throw new ServiceError('path_unknown')
    reply.header('allow', [...new Set(found.flatMap(({ method }) => method))].sort().join(', '))
    throw new WrongMethod(found.every(({ config }) => config?.page))
  })
}

type PathMatcher = (segments: readonly string[]) => boolean

/**
 * Returns a function that tells whether a path, split at its slashes, is one of a route's: `:name` stands for one segment
 * that is not empty, or for one with a fixed ending, and a last `*` for any rest.
 */
function pathMatcher(url: string): PathMatcher {
  const route = url.split('/')
  const open = route.at(-1) === '*'
  const tests = (open ? route.slice(0, -1) : route).map((text) => {
    if (!text.startsWith(':')) return (segment: string | undefined) => segment === text
    const ending = text.replace(/^:\w+(\(.*\))?/, '')
    return (segment = '') => segment.length > ending.length && segment.endsWith(ending)
  })
  return (segments) =>
    (open ? segments.length > tests.length : segments.length === tests.length) &&
    tests.every((test, index) => test(segments[index]))
}
