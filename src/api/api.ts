import type { FastifyInstance } from 'fastify'
import { callsTo } from '../../generated/handlers.ts'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'
import type { Caller } from '../auth/access-policy.ts'
import type { Authorizer } from '../auth/authorizer.ts'
import { readCredential, type SchemeReader } from '../auth/credential.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import { asServiceError, sendError } from '../hooks/error-replies.ts'
import { recheckAccess } from '../hooks/recheck-access.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import { headerValues } from '../http/header-values.ts'
import type { Store } from '../store/store.ts'
import { FairQueue } from '../util/fair-queue.ts'
import {
  bindOperations,
  declaredError,
  type Operation,
  type OperationRequest,
  type PathParameters,
} from './bind.ts'
import type { ApiCaller } from './caller.ts'
import { createHandlers, type OnReported } from './handlers.ts'
import type { Waiters } from './waiters.ts'

export interface ApiOptions {
  store: Store
  lookup: CommitLookup
  authorizer: Authorizer
  /** Requests that wait for a change of a commit. The API closes them when the app is closed. */
  waiters: Waiters
  onReported: OnReported
  /** How long a body may take to arrive, in milliseconds. */
  bodyTimeout: number
  /** Whether to check every answer against the contract before sending it. */
  verifyReplies: boolean
}

/** The contract's security schemes by name, with the word that each uses in the header. */
const schemes: Record<string, { word: string; read: SchemeReader }> = {
  bearerToken: { word: 'bearer', read: (value) => value },
  accessToken: { word: 'token', read: (value) => value },
}
const readers = new Map(Object.values(schemes).map(({ word, read }) => [word, read]))
const CHALLENGE = 'Bearer realm="commit-status"'

/**
 * Limits the large answers that are built concurrently. Each takes up to 50 MB while it is being built. One report can end all
 * waits of the process, whose requests then queue beside others.
 */
const LARGE_ANSWERS = { slots: 2, slotsPerClient: 1, waiting: 1_400, waitingPerClient: 200, timeout: 10_000 }

/** Registers the Commit Status JSON API: the generated operations, bound to their handlers. */
export async function api(app: FastifyInstance, options: ApiOptions): Promise<void> {
  const { authorizer, waiters } = options
  const large = new FairQueue(LARGE_ANSWERS)
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
    if (request.release === null)
      request.release = await large.enter(request.client.address, connectionSignal(request.raw.socket))
  }

  async function callerOf(request: OperationRequest, operation: Operation): Promise<ApiCaller> {
    return {
      ...(await authorize(request, operation)),
      admit: () => admit(request),
      wait: (commit, wait) =>
        waiters.wait(commit, wait, request.client.address, connectionSignal(request.raw.socket)),
      again: () => callerOf(request, operation),
    }
  }

  // Requests that wait would otherwise delay the end of the server.
  app.addHook('preClose', async () => waiters.close())
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('vary', 'Authorization')
    done()
  })
  const declared: Readonly<Record<string, Operation>> = operations
  app.setErrorHandler<unknown, { Params: PathParameters }>(async (error, request, reply) => {
    // Also set on errors raised before the hook above runs.
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
    authorize: callerOf,
    bodyTimeout: options.bodyTimeout,
    verifyReplies: options.verifyReplies,
  })
}
