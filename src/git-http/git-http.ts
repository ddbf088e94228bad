import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { scopes } from '../../generated/operations.ts'
import type { Caller, Requirement } from '../auth/access-policy.ts'
import type { Authorizer } from '../auth/authorizer.ts'
import { readCredential, type SchemeReader } from '../auth/credential.ts'
import { ServiceError } from '../errors.ts'
import { checkRepositoryFiles } from '../git/repository-health.ts'
import { checkOwner } from '../git/repository-owner.ts'
import { sendError } from '../hooks/error-replies.ts'
import { recheckAccess } from '../hooks/recheck-access.ts'
import { headerValues } from '../http/header-values.ts'
import type { RepositoryAccess } from '../store/access/access.ts'
import type { Pusher } from '../store/audit/audit.ts'
import type { Store } from '../store/store.ts'
import type { GitService } from './http-backend.ts'
import { PushRecorder } from './push/record.ts'
import { bodyLimit, checkGitBodyHeaders } from './receive.ts'
import { createGitServer, type GitCall, type GitServerOptions, type ServeGit } from './serve.ts'

export interface GitHttpOptions extends Omit<GitServerOptions, 'pushes'> {
  authorizer: Authorizer
  store: Store
}

/** A repository as named in the path of a request. */
interface Target {
  owner: string
  name: string
}

/** Runs steps 2 to 6 of the order of checks. */
type Authorize = (request: FastifyRequest, target: Target, access: Requirement['access']) => Promise<Caller>

/** Sends git's answer to an authorized request. */
type Answer = (
  request: FastifyRequest,
  reply: FastifyReply,
  target: Target,
  caller: Caller,
  call: Omit<GitCall, 'protocol' | 'client'>,
) => Promise<FastifyReply>

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * Reads the token from Basic credentials (RFC 7617). The token is the password, or the user name if the password is empty or
 * `x-oauth-basic`. If both are empty, the client sent no credential: it probes whether one is required.
 */
const readBasic: SchemeReader = (value) => {
  if (!BASE64.test(value)) return null
  const text = Buffer.from(value, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  if (colon === -1) return null
  const [user, password] = [text.slice(0, colon), text.slice(colon + 1)]
  if (user === '' && password === '') return ''
  const token = password === '' || password === 'x-oauth-basic' ? user : password
  return token === '' ? null : token
}

const readers = new Map<string, SchemeReader>([
  ['basic', readBasic],
  ['bearer', (value) => value],
  ['token', (value) => value],
])
const CHALLENGE = 'Basic realm="commit-status"'
const SERVICES = ['git-upload-pack', 'git-receive-pack'] as const
const PROTOCOL = /^[\w.:=-]{1,100}$/
const SUFFIX = '.git'

/** Serves git over HTTP at `/{owner}/{repo}.git`: the smart protocol (gitprotocol-http(5)), run by git itself. */
export async function gitHttp(app: FastifyInstance, options: GitHttpOptions): Promise<void> {
  const { authorizer, store, ...rest } = options
  const limits = { ...rest.limits, maxBytes: Math.min(rest.limits.maxBytes, rest.spool.bytes) }
  const authorize = createAuthorize(authorizer)
  const recorder = new PushRecorder(store.pushes, limits.timeout + limits.ending, (error) =>
    app.log.error({ err: error }, 'cannot settle a push yet'),
  )
  app.addHook('onClose', () => recorder.close())
  const onError = (error: unknown) => app.log.error({ err: error }, 'cannot check a push')
  const pushes = { store, recorder, onError }
  const answer = createAnswer(createGitServer({ ...rest, limits, pushes }), authorize)
  app.setErrorHandler(async (error, _request, reply) => sendError(reply, withoutDisconnect(error), CHALLENGE))
  addRefs(app, authorize, answer)
  for (const service of SERVICES) addRpc(app, service, bodyLimit(service, limits.maxBytes), authorize, answer)
}

/** Returns the error of a request whose client has disconnected before the answer began, which is no error of the server. */
function withoutDisconnect(error: unknown): unknown {
  const isDisconnect =
    error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE'
  return isDisconnect ? new ServiceError('malformed_request') : error
}

function createAuthorize(authorizer: Authorizer): Authorize {
  return async (request, { owner, name }, access) => {
    const credential = readCredential(headerValues(request.raw.rawHeaders, 'authorization'), readers)
    const attempt = { credential, address: request.client.address }
    const caller = await authorizer.authorize(attempt, owner, name, {
      access,
      scopes: [scopes.repo],
      // Only a push needs write access here.
      push: access === 'write',
    })
    request.caller = caller.token
    return caller
  }
}

function createAnswer(serveGit: ServeGit, authorize: Authorize): Answer {
  return async (request, reply, target, { token, repository }, call) => {
    const kind = call.step === 'refs' ? 'advertisement' : 'result'
    reply.header('cache-control', 'no-store').type(`application/x-${call.service}-${kind}`)
    try {
      if (request.method === 'HEAD') return reply.send(await checkServable(repository))
      const protocol = protocolOf(request.raw)
      const client = token ? `user ${token.userId}` : request.client.address
      return reply.send(await serveGit(request, reply, repository, { ...call, protocol, client }))
    } catch (error) {
      throw await recheckAccess(error, () => authorize(request, target, 'read'))
    }
  }
}

/** Returns the empty body of an answer to HEAD. @throws RepositoryUnavailable as a GET would */
async function checkServable(repository: RepositoryAccess): Promise<''> {
  await checkOwner(repository)
  await checkRepositoryFiles(repository.path)
  return ''
}

/** Adds the route for the list of refs that every fetch and push begins with. */
function addRefs(app: FastifyInstance, authorize: Authorize, answer: Answer): void {
  const operationOf = ({ url }: FastifyRequest) => `${serviceOf(queryOf(url) ?? '') ?? 'git'} refs`
  app.get<{ Params: { owner: string; repo: string } }>('/:owner/:repo/info/refs', {
    config: { operationOf },
    async handler(request, reply) {
      const { owner, repo } = request.params
      if (owner === '' || repo === '') throw new ServiceError('path_unknown')
      const query = queryOf(request.url)
      if (!repo.endsWith(SUFFIX)) return redirectToSuffix(reply, owner, repo, query)
      const target = { owner, name: repo.slice(0, -SUFFIX.length) }
      const service = serviceOf(query ?? '')
      const caller = await authorize(request, target, accessTo(service))
      if (service === null) throw new ServiceError('git_service_unknown')
      return answer(request, reply, target, caller, { service, step: 'refs', pusher: null })
    },
  })
}

/** Redirects a clone URL without `.git`. */
function redirectToSuffix(
  reply: FastifyReply,
  owner: string,
  repo: string,
  query: string | undefined,
): FastifyReply {
  const path = `/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}${SUFFIX}/info/refs`
  return reply
    .header('cache-control', 'no-store')
    .redirect(query === undefined ? path : `${path}?${query}`, 301)
}

/** Adds the route of a service. */
function addRpc(
  app: FastifyInstance,
  service: GitService,
  maxBytes: number,
  authorize: Authorize,
  answer: Answer,
): void {
  const authorized = new WeakMap<FastifyRequest, Caller>()
  app.post<{ Params: Target }>(`/:owner/:name([^]*)${SUFFIX}/${service}`, {
    config: { operation: service },
    // Before Fastify looks at the headers of the body.
    async onRequest(request) {
      if (request.params.owner === '') throw new ServiceError('path_unknown')
      authorized.set(request, await authorize(request, request.params, accessTo(service)))
      checkGitBodyHeaders(request.raw, service, maxBytes)
    },
    async handler(request, reply) {
      const caller = authorized.get(request)
      if (caller === undefined) throw new Error('the request was not authorized')
      const pusher = service === 'git-receive-pack' ? pusherOf(request, request.params, caller) : null
      return answer(request, reply, request.params, caller, { service, step: 'rpc', pusher })
    },
  })
}

/** Returns who pushes, of a caller who may write. */
function pusherOf(
  { client }: FastifyRequest,
  { owner, name }: Target,
  { token, repository }: Caller,
): Pusher {
  if (token === null) throw new Error('an anonymous caller cannot push')
  const { id, name: tokenName, userId, userName } = token
  return {
    by: {
      kind: 'user',
      user: { id: userId, name: userName },
      token: { id, name: tokenName },
      address: client.address,
    },
    repositoryId: repository.id,
    repositoryName: `${owner}/${name}`,
  }
}

function accessTo(service: GitService | null): Requirement['access'] {
  return service === 'git-receive-pack' ? 'write' : 'read'
}

/** Returns what follows the first `?`, or undefined if there is none. */
function queryOf(url: string): string | undefined {
  const mark = url.indexOf('?')
  return mark === -1 ? undefined : url.slice(mark + 1)
}

/** Returns null unless the query names exactly one known service. */
function serviceOf(query: string): GitService | null {
  const [name, ...others] = new URLSearchParams(query).getAll('service')
  return (others.length === 0 && SERVICES.find((service) => service === name)) || null
}

/** Returns the client's `Git-Protocol` header if its characters are safe to pass to git. */
function protocolOf({ headers }: IncomingMessage): string | undefined {
  const protocol = headers['git-protocol']?.toString()
  return protocol !== undefined && PROTOCOL.test(protocol) ? protocol : undefined
}
