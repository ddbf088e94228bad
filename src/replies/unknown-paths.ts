import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { isReserved } from '../domain/names.ts'
import { ServiceError } from '../errors.ts'

/** The path exists, but not with this method. */
export class WrongMethod extends ServiceError {
  /** Whether all routes with this path are pages. */
  readonly onPage: boolean

  constructor(onPage: boolean) {
    super('method_wrong')
    this.onPage = onPage
  }
}

/**
 * Answers 404 if no route has the path, and 405 with `Allow` if a route has the path but not the
 * method. Call it before the first route is added.
 */
export function answerUnknownPaths(app: FastifyInstance): void {
  const routes: { matches: ReturnType<typeof pathMatcher>; options: RouteOptions }[] = []
  app.addHook('onRoute', (options) => {
    routes.push({ matches: pathMatcher(options.url), options })
  })
  app.setNotFoundHandler((request, reply) => {
    const segments = segmentsOf(request)
    const matchingRoutes = routes
      .filter(({ matches }) => matches(segments))
      .map(({ options }) => options)
      .filter(({ url, config }) => !(config?.page && isOfNoOwner(url, segments)))
    if (matchingRoutes.length === 0) throw new ServiceError('path_unknown')
    reply.header('allow', [...new Set(matchingRoutes.flatMap(({ method }) => method))].sort().join(', '))
    throw new WrongMethod(matchingRoutes.every(({ config }) => config?.page))
  })
}

/**
 * Refuses a path that the router has matched with the route of a page although no page has it: the
 * router also matches empty segments.
 *
 * @param url of the route @throws ServiceError `path_unknown`
 */
export function checkPagePath(url: string, request: FastifyRequest): void {
  const segments = segmentsOf(request)
  if (isOfNoOwner(url, segments) || !pathMatcher(url)(segments)) throw new ServiceError('path_unknown')
}

/** Whether a path has a reserved name, which is not an owner, where the route of a page has the owner. */
function isOfNoOwner(url: string, [, first = '']: readonly string[]): boolean {
  return url.startsWith('/:owner') && isReserved(first)
}

/** Returns the parts of a request's path. The router has refused paths that cannot be decoded. */
function segmentsOf(request: FastifyRequest): string[] {
  const [path = ''] = request.url.split('?', 1)
  return decodeURI(path).split('/')
}

/**
 * Returns a function that checks whether a path, split at its slashes, matches a route: `:name`
 * matches one non-empty segment, or one with a fixed ending, and a final `*` matches the rest.
 */
function pathMatcher(url: string) {
  const route = url.split('/')
  const open = route.at(-1) === '*'
  const tests = (open ? route.slice(0, -1) : route).map((text) => {
    if (!text.startsWith(':')) return (segment: string | undefined) => segment === text
    const ending = text.replace(/^:\w+(\(.*\))?/, '')
    return (segment = '') => segment.length > ending.length && segment.endsWith(ending)
  })
  return (segments: readonly string[]): boolean =>
    (open ? segments.length > tests.length : segments.length === tests.length) &&
    tests.every((test, index) => test(segments[index]))
}
