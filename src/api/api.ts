import type { FastifyInstance } from 'fastify'
import type { Call, Handlers } from '../../generated/handlers.ts'
import { operations } from '../../generated/operations.ts'
import { schemas } from '../../generated/schemas.ts'
import type { Requirement } from '../auth/access-policy.ts'
import type { Authorizer } from '../auth/authorizer.ts'
import { readCredential } from '../auth/credential.ts'
import { ServiceError } from '../errors.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import { headerValues } from '../http/incoming.ts'
import { asServiceError, sendError } from '../replies/error-replies.ts'
import { recheckAccess } from '../replies/recheck-access.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import {
  type BoundOperation,
  bindOperations,
  declaredError,
  type OperationRequest,
  type PathParameters,
} from './bind.ts'
import { type ApiCaller, createHandlers, type HandlerParts } from './handlers.ts'

export interface ApiOptions extends HandlerParts {
  authorizer: Authorizer
  /** How long a body may take to arrive, in milliseconds. */
  bodyTimeout: number
  /** Whether to check every answer against the contract before sending it. */
  verifyReplies: boolean
}

/** All handlers with the request that `bindOperations` gives them. */
type Calls = Record<keyof Handlers<ApiCaller>, Call<ApiCaller>>

/** The words in the header of the contract's security schemes. */
const schemes = { bearerToken: 'bearer', accessToken: 'token' }
const readers = new Map(Object.values(schemes).map((word) => [word, (token: string) => token]))
const CHALLENGE = 'Bearer realm="commit-status"'

/** Registers the Commit Status JSON API: the generated operations, bound to their handlers. */
export async function api(app: FastifyInstance, options: ApiOptions): Promise<void> {
  const { authorizer } = options

  async function authorize(request: OperationRequest, requirement: Requirement): Promise<ApiCaller> {
    const credential = readCredential(headerValues(request.raw.rawHeaders, 'authorization'), readers)
    const { address } = request.client
    const { owner, repo } = request.params
    const client = { address, signal: connectionSignal(request.raw.socket) }
    const check = async (earlier?: ReadableRepository): Promise<ApiCaller> => {
      const checkedAt = performance.now()
      const again = earlier !== undefined
      const caller = await authorizer.authorize({ credential, address }, owner, repo, requirement, again)
      const { token, repository } = caller
      // Another one may have the name by now.
      if (earlier && earlier.id !== repository.id)
        throw new ServiceError(token ? 'repository_unknown' : 'credential_missing')
      return { ...caller, client, checkedAt, checkAgain: () => check(repository) }
    }
    const caller = await check()
    request.caller = caller.token
    return caller
  }

  const declared: Readonly<Record<string, BoundOperation>> = operations
  app.setErrorHandler<unknown, { Params: PathParameters }>(async (error, request, reply) => {
    reply.header('vary', 'Authorization')
    const operation = declared[request.routeOptions.config.operation ?? '']
    return sendError(reply, declaredError(operation, asServiceError(error)), CHALLENGE)
  })
  bindOperations<ApiCaller>(app, {
    operations,
    schemas,
    // The types of requests and the schemas that validate them are generated from the same
    // contract.
    calls: createHandlers(options) as Calls,
    schemes: Object.keys(schemes),
    authorize,
    explain: (error, { checkAgain }) => recheckAccess(error, checkAgain),
    bodyTimeout: options.bodyTimeout,
    verifyReplies: options.verifyReplies,
  })
}
