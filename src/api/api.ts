import type { FastifyInstance } from 'fastify'
import { callsTo } from '../../generated/handlers.ts'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'
import type { Caller } from '../auth/access-policy.ts'
import type { Authorizer } from '../auth/authorizer.ts'
import { readCredential, type SchemeReader } from '../auth/credential.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import { asServiceError, sendError } from '../hooks/error-replies.ts'
import { recheckAccess } from '../hooks/recheck-access.ts'
import { headerValues } from '../http/header-values.ts'
import type { Store } from '../store/store.ts'
import type { StatusState } from '../store/tables.ts'
import { FairQueue } from '../util/fair-queue.ts'
import {
  bindOperations,
  declaredError,
  type Operation,
  type OperationRequest,
  type PathParameters,
} from './bind.ts'
import { type ApiCaller, createHandlers } from './handlers.ts'

export interface ApiOptions {
  store: Store
  lookup: CommitLookup
  authorizer: Authorizer
  /** Told of every report that is stored. */
  onReported(state: StatusState): void
  /** Milliseconds for a body to arrive. */
  bodyTimeout: number
  /** Check every answer against the contract before it is sent. */
  verifyReplies: boolean
}

/** The contract's security schemes by their names there, and the word that each has in the header. */
const schemes: Record<string, { word: string; read: SchemeReader }> = {
  bearerToken: { word: 'bearer', read: (value) => value },
  accessToken: { word: 'token', read: (value) => value },
}
const readers = new Map(Object.values(schemes).map(({ word, read }) => [word, read]))
const CHALLENGE = 'Bearer realm="commit-status"'

/** Large answers that are made at a time: each takes some 50 MB at worst while it is. */
const LARGE_ANSWERS = { places: 2, placesPerClient: 1, waiting: 400, waitingPerClient: 100, timeout: 10_000 }

/** The Commit Status JSON API: the generated operations, bound to their handlers. */
export async function api(app: FastifyInstance, options: ApiOptions): Promise<void> {
  const { authorizer } = options
  const large = new FairQueue(LARGE_ANSWERS)
  // Making a logger for each request costs more than all logging here does: faults are logged by their request's id.
  app.setChildLoggerFactory((logger) => logger)

  function authorize(
    request: OperationRequest,
    { access, scopes }: Pick<Operation, 'access' | 'scopes'>,
  ): Promise<Caller> {
    const credential = readCredential(headerValues(request.raw.rawHeaders, 'authorization'), readers)
    const { address } = request.client
    const { owner, repo } = request.params
    return authorizer.authorize({ credential, address }, owner, repo, { access, scopes })
  }

  async function admit(request: OperationRequest): Promise<void> {
    try {
      request.leave = await large.enter(request.client.address, request.signal)
    } catch (cause) {
      throw new ServiceError('unavailable', undefined, { cause })
    }
  }

  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('vary', 'Authorization')
    done()
  })
  const declared: Readonly<Record<string, Operation>> = operations
  app.setErrorHandler<unknown, { Params: PathParameters }>(async (error, request, reply) => {
    // What is refused before the hook above runs varies no less.
    reply.header('vary', 'Authorization')
    const current = await recheckAccess(error, () => authorize(request, { access: 'read', scopes: [] }))
    const operation = declared[request.routeOptions.config.operation ?? '']
    return sendError(reply, declaredError(operation, asServiceError(current)), CHALLENGE)
  })
  bindOperations<ApiCaller>(app, {
    operations,
    schemas,
    calls: callsTo(createHandlers(options.store, options.lookup, options.onReported)),
    schemes: Object.keys(schemes),
    authorize: async (request, operation) => ({
      ...(await authorize(request, operation)),
      admit: () => admit(request),
    }),
    bodyTimeout: options.bodyTimeout,
    verifyReplies: options.verifyReplies,
  })
}
