import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { api } from './api/api.ts'
import { createAuthorizer } from './auth/authorizer.ts'
import { createBudget } from './auth/budget.ts'
import type { OidcOptions } from './auth/oidc.ts'
import { createBranches } from './branches/branches.ts'
import type { CommitLookup } from './git/objects/commit-lookup.ts'
import { gitLfs } from './git-http/lfs.ts'
import { DEFAULT_GIT_LIMITS, type GitLimits } from './git-http/limits.ts'
import { gitHttp } from './git-http/routes.ts'
import type { Spool } from './git-http/spool.ts'
import { isTrusted, type TrustedProxies } from './http/address.ts'
import {
  type ConnectionLimits,
  createConnectionLimiter,
  defaultConnectionLimits,
} from './http/connection-limits.ts'
import { answerParserError, createHttpServer, DEFAULT_TIMEOUTS, type Timeouts } from './http/server.ts'
import { health } from './ops/health.ts'
import { measureRequests } from './ops/measure.ts'
import { metricsPage } from './ops/metrics-page.ts'
import { shedLoad } from './ops/overload.ts'
import { logRequests } from './ops/request-log.ts'
import { decorateClient } from './replies/client.ts'
import { addErrorLog } from './replies/error-log.ts'
import { sendError } from './replies/error-replies.ts'
import { answerUnknownPaths } from './replies/unknown-paths.ts'
import type { FailureLimits } from './store/failures/failures.ts'
import type { Store } from './store/store.ts'
import type { Visibility } from './store/tables.ts'
import { routedUrl } from './web/go-get.ts'
import { createErrorPageSender } from './web/layout/error-page.ts'
import { createSessionAuth } from './web/session/session-auth.ts'
import { web } from './web/web.ts'

export interface AppOptions {
  store: Store
  lookup: CommitLookup
  spool: Spool
  logger?: FastifyBaseLogger
  timeouts?: Partial<Timeouts>
  /** Limits of open connections. Default: `defaultConnectionLimits`. */
  connections?: ConnectionLimits
  /** Failed authentication attempts allowed per address. Default: 30 in 300 seconds. */
  budget?: FailureLimits
  /** Limits of git over HTTP. Default: `DEFAULT_GIT_LIMITS`. */
  git?: Partial<GitLimits>
  trustedProxies?: TrustedProxies
  /** The public origin. Default: the origin of the request. */
  publicUrl?: string | null
  /** Milliseconds for which a new token may live. Default: for ever. */
  tokenMaxLifetime?: number | null
  /** The OpenID Connect provider with which people sign in; requires `publicUrl`. Default: none. */
  oidc?: OidcOptions | null
  /** Whether people can sign in with passwords. Default: true. */
  passwordSignIn?: boolean
  /** Whether users create repositories in the browser. Default: true. */
  repositoryCreation?: boolean
  /** What the form for a new repository proposes. Default: public. */
  defaultVisibility?: Visibility
  /** Seconds after which pages call a pending check stalled. Default: 3,600. */
  stalledAfter?: number
  /**
   * The token that `/metrics` requires. Without it, nothing is measured and the page does not
   * exist.
   */
  metricsToken?: string | null
  /** Event loop delay above which requests get 503, in milliseconds. Default: 1,000. */
  maxEventLoopDelay?: number
  /** Whether to check every API answer against the contract before sending it. */
  verifyReplies?: boolean
}

const DEFAULT_BUDGET: FailureLimits = { limit: 30, window: 300 }
const STALLED_AFTER = 3_600
const MAX_EVENT_LOOP_DELAY = 1_000
/** Sign-ins of one address that may wait at a time for the OpenID Connect provider. */
const SIGN_INS_AT_ONCE = 8

/** Builds the app without listening. The caller closes the store and the lookup. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { store, lookup, spool } = options
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts }
  const trustedProxies = options.trustedProxies ?? []
  const limitConnections = createConnectionLimiter(
    options.connections ?? defaultConnectionLimits(),
    trustedProxies,
    (details, text) => app.log.warn(details, text),
  )

  const app = Fastify({
    requestIdHeader: false,
    // Random, so that ids do not reveal the number of requests.
    genReqId: (request) => idOfProxy(request, trustedProxies) ?? randomUUID(),
    serverFactory: (handle) =>
      limitConnections(createHttpServer(handle, timeouts, (address) => isTrusted(address, trustedProxies))),
    clientErrorHandler: answerParserError,
    frameworkErrors: (error, request, reply) => sendError(withCommonHeaders(request, reply), error, ''),
    rewriteUrl: routedUrl,
    routerOptions: { maxParamLength: 16 * 1024 },
    // Requests in progress on open connections are still answered while the server stops.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
  })

  // Fastify itself gets no logger: for its log lines, it would do work at every request.
  if (options.logger) app.log = options.logger
  addErrorLog(app)

  const limits = options.budget ?? DEFAULT_BUDGET
  const metrics = options.metricsToken
    ? (await import('./ops/metrics.ts')).createMetrics(store, lookup, limits, (metric, err) =>
        app.log.warn({ err, metric }, 'a metric cannot be read, and is left out'),
      )
    : undefined
  const events = {
    failed: () => metrics?.authenticationFailed(),
    blocked(address: string) {
      app.log.warn({ address }, 'blocked: too many failed authentication attempts')
      metrics?.addressBlocked()
    },
  }
  const budget = createBudget(store.failures, limits, events)
  const authorizer = createAuthorizer(store, budget, app.log)
  app.addHook('onClose', () => authorizer.close())

  // Each route reads its own body.
  for (const method of app.supportedMethods)
    app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  const publicUrl = options.publicUrl ?? null
  const oidc = options.oidc
    ? (await import('./auth/oidc.ts')).createOidc(options.oidc, `${publicUrl}/login/callback`)
    : null
  const sessionAuth = createSessionAuth(store)
  const sendErrorPage = createErrorPageSender(sessionAuth)
  app.setErrorHandler(sendErrorPage)
  app.addHook('onRequest', (request, reply, done) => {
    withCommonHeaders(request, reply)
    done()
  })
  decorateClient(app, trustedProxies, publicUrl)
  logRequests(app)
  if (metrics) measureRequests(app, metrics)
  shedLoad(app, options.maxEventLoopDelay ?? MAX_EVENT_LOOP_DELAY, () => metrics?.requestShed())
  answerUnknownPaths(app)

  const branches = createBranches(store)
  await app.register(api, {
    store,
    lookup,
    branches,
    authorizer,
    onReported: (state) => metrics?.statusReported(state),
    bodyTimeout: timeouts.body,
    verifyReplies: options.verifyReplies ?? false,
  })
  await app.register(gitHttp, {
    authorizer,
    limits: { ...DEFAULT_GIT_LIMITS, ...options.git },
    spool,
    store,
    bodyTimeout: timeouts.body,
    onPushRefused: (kind) => metrics?.pushRefused(kind),
    addGauge: metrics?.gauge,
  })
  await app.register(gitLfs)
  await app.register(health, { store, spool })
  if (metrics && options.metricsToken) {
    await app.register(metricsPage, { metrics, token: options.metricsToken, budget })
  }
  await app.register(web, {
    store,
    lookup,
    branches,
    budget,
    providerBudget: createBudget(store.failures, limits, events, SIGN_INS_AT_ONCE),
    sessionAuth,
    sendErrorPage,
    tokenMaxLifetime: options.tokenMaxLifetime ?? null,
    oidc,
    passwordSignIn: options.passwordSignIn ?? true,
    repositoryCreation: options.repositoryCreation ?? true,
    defaultVisibility: options.defaultVisibility ?? 'public',
    stalledAfter: options.stalledAfter ?? STALLED_AFTER,
    bodyTimeout: timeouts.body,
  })
  return app
}

/** Returns the id that a trusted proxy has given a request. */
function idOfProxy({ headers, socket }: IncomingMessage, proxies: TrustedProxies): string | undefined {
  const sentId = headers['x-request-id']
  if (typeof sentId !== 'string' || !/^[\w.:-]{1,64}$/.test(sentId)) return undefined
  return isTrusted(socket.remoteAddress ?? '', proxies) ? sentId : undefined
}

/** Sets the headers that every answer carries. */
function withCommonHeaders(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff')
}
