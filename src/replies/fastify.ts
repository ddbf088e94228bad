import type { Caller } from '../auth/access-policy.ts'
import type { Session } from '../auth/session.ts'
import type { ServiceError } from '../errors.ts'

/** What the server adds to Fastify. */
declare module 'fastify' {
  interface FastifyInstance {
    /** Logs a server error (status 500 or above), or a refused sign-in. See `addErrorLog`. */
    logError(request: FastifyRequest, error: ServiceError): void
  }

  interface FastifyRequest {
    /** The origin of the request, according to the connection and trusted proxies. See `decorateClient`. */
    readonly client: Client
    /** `client`, once it was asked for. */
    knownClient: Client | null
    /** The token that the request was authorized with; null: none, or not yet. */
    caller: Caller['token']
    /** What was refused in the protocol of git, in an answer whose status is 200. */
    refusal: ServiceError | null
    /** The session of the browser; null on routes that are no pages, and until it has been read. */
    session: Session | null
    /** The form that a page received; null if it received none. */
    form: URLSearchParams | null
  }

  interface FastifyContextConfig {
    /** The route is a page for browsers: its errors are pages too. */
    page?: boolean
    /** What the page was made of is remembered, for when it asks again: see `web/routing/open-pages.ts`. */
    remembered?: boolean
    /** Whether the route is served while the server is overloaded. */
    alwaysServed?: boolean
    /** Name of the route in metrics. Default: method and path. */
    operation?: string
    /** Returns the name where it depends on the request: one of a few. */
    operationOf?(request: FastifyRequest): string
  }
}

/** The origin of a request. */
export interface Client {
  /** The key by which failures are counted and resources are shared. */
  readonly address: string
  /**
   * Returns the public origin or else the one that the client used: `https://status.example.org`.
   */
  origin(): string
}
