import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { scopes } from '../../generated/operations.ts'
import { type Caller, RenamedError, type Requirement } from '../auth/access-policy.ts'
import type { Authorizer } from '../auth/authorizer.ts'
import { readCredential, type SchemeReader } from '../auth/credential.ts'
import type { Pusher } from '../domain/actors.ts'
import { ServiceError } from '../errors.ts'
import { GarbageCollector } from '../git/collect-garbage.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import { headerValues } from '../http/incoming.ts'
import { sendTextError } from '../replies/error-replies.ts'
import { recheckAccess } from '../replies/recheck-access.ts'
import { Turns } from '../schedule/turns.ts'
import type { Store } from '../store/store.ts'
import { hasCode } from '../util/expected-errors.ts'
import { createBeginnings } from './beginnings.ts'
import { bodyLimit, checkGitBodyHeaders } from './body.ts'
import { createFolderSync } from './push/folder-sync.ts'
import { Presence } from './push/presence.ts'
import { PushRecorder } from './push/record.ts'
import { asGitError, refuseFetch, tellInProtocol } from './refusals.ts'
import { createGitServer, type GitServerOptions, openServable } from './run.ts'
import type { GitRequest, GitService } from './service.ts'

export interface GitHttpOptions extends Omit<GitServerOptions, 'pushes' | 'garbage'> {
  authorizer: Authorizer
  store: Pick<Store, 'pushes' | 'reportedContexts' | 'rules' | 'remote'>
}

/** A repository as named in the path of a request. */
interface Target {
  owner: string
  name: string
}

interface Route {
  Params: { owner: string; repo: string }
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * Reads the token from Basic credentials (RFC 7617). The token is the password, or the user name if
 * the password is empty or `x-oauth-basic`. If both are empty, the client sent no credential: it
 * probes whether one is required.
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
/** Some clients send what follows a slash at the end of a clone URL, and do not follow redirects. */
const PLACES = ['/:owner/:repo', '/:owner/:repo/'] as const
/** Milliseconds after its timeout in which git ends: then its push can be settled. */
const GIT_ENDING = 10_000

/**
 * Serves git over HTTP at `/{owner}/{repo}.git`, also without `.git` and with a slash at the end: the
 * smart protocol (gitprotocol-http(5)), run by git itself.
 */
export async function gitHttp(app: FastifyInstance, options: GitHttpOptions): Promise<void> {
  const { authorizer, store, ...rest } = options
  const limits = { ...rest.limits, maxBytes: Math.min(rest.limits.maxBytes, rest.spool.bytes) }
  const presence = new Presence(rest.spool.folder)
  const syncFolders = createFolderSync()
  const onUnsettled = (error: unknown) => app.log.error({ err: error }, 'cannot settle a push yet')
  const recorder = new PushRecorder({
    pushes: store.pushes,
    rules: store.rules,
    overdue: limits.timeout + GIT_ENDING,
    presence,
    syncFolders,
    onError: onUnsettled,
  })
  const garbage = new GarbageCollector(limits.timeout)
  app.addHook('onClose', async () => {
    await Promise.all([recorder.close(), garbage.close()])
    await presence.close()
  })
  const onError = (error: unknown) => app.log.error({ err: error }, 'cannot check a push')
  const pushes = { store, recorder, presence, syncFolders, turns: new Turns(store.remote), onError }
  const begin = createBeginnings(app.server, limits.maxWait)
  const runGit = createGitServer({ ...rest, limits, garbage, pushes })
  app.setErrorHandler(async (error, _request, reply) => {
    // That a client disconnects before the answer begins is no error of the server.
    const isDisconnect = hasCode(error, 'ERR_STREAM_PREMATURE_CLOSE')
    return sendTextError(
      reply,
      isDisconnect ? new ServiceError('malformed_request') : asGitError(error),
      CHALLENGE,
    )
  })

  /**
   * Runs steps 2 to 6 of the order of checks.
   *
   * @param again whether the request has passed step 2 before
   */
  async function authorize(
    request: FastifyRequest,
    { owner, name }: Target,
    access: Requirement['access'],
    again = false,
  ) {
    const credential = readCredential(headerValues(request.raw.rawHeaders, 'authorization'), readers)
    const attempt = { credential, address: request.client.address }
    // Only a push needs write access here.
    const requirement = { access, scopes: [scopes.repo], push: access === 'write' }
    const caller = await authorizer.authorize(attempt, owner, name, requirement, again)
    request.caller = caller.token
    return caller
  }

  /** Sends git's answer to an authorized request. */
  async function answer(
    request: FastifyRequest,
    reply: FastifyReply,
    target: Target,
    { token, repository }: Caller,
    call: Pick<GitRequest, 'service' | 'step' | 'pusher'>,
  ): Promise<FastifyReply> {
    const kind = call.step === 'refs' ? 'advertisement' : 'result'
    reply.header('cache-control', 'no-store').type(`application/x-${call.service}-${kind}`)
    const access = accessTo(call.service)
    const authorizeAgain = async () => {
      const again = await authorize(request, target, access, true).catch((error: unknown) => {
        // The caller may read the repository under its new name.
        if (access === 'read' && error instanceof RenamedError) return error
        throw error
      })
      if (again.repository.id === repository.id) return
      // Another repository may have the name by now.
      throw again instanceof Error
        ? again
        : new ServiceError(token ? 'repository_unknown' : 'credential_missing')
    }
    try {
      if (request.method === 'HEAD') {
        await openServable(repository)
        return reply.send('')
      }
      const protocol = protocolOf(request.raw)
      const client = token ? `user ${token.userId}` : request.client.address
      if (call.step === 'rpc') await begin({ address: client, signal: connectionSignal(request.raw.socket) })
      return reply.send(
        await runGit({ ...call, request, reply, repository, protocol, client, authorizeAgain }),
      )
    } catch (cause) {
      const error = await recheckAccess(cause, authorizeAgain)
      if (call.step === 'rpc' && call.service === 'git-upload-pack')
        return reply.send(refuseFetch(tellInProtocol({ request, reply }, error)))
      throw error
    }
  }

  // The list of refs that every fetch and push begins with.
  for (const place of PLACES)
    app.get<Route>(`${place}/info/refs`, {
      config: { operationOf: ({ url }: FastifyRequest) => `${serviceOf(queryOf(url)) ?? 'git'} refs` },
      async handler(request, reply) {
        const target = targetOf(request)
        const service = serviceOf(queryOf(request.url))
        const caller = await authorize(request, target, accessTo(service))
        if (service === null) throw new ServiceError('git_service_unknown')
        // Starts a process, for which the first push does not wait.
        if (service === 'git-receive-pack') presence.own().catch(onError)
        return answer(request, reply, target, caller, { service, step: 'refs', pusher: null })
      },
    })

  for (const service of SERVICES) {
    const maxBytes = bodyLimit(service, limits.maxBytes)
    for (const place of PLACES)
      app.post<Route>(`${place}/${service}`, {
        config: { operation: service },
        async handler(request, reply) {
          const target = targetOf(request)
          const caller = await authorize(request, target, accessTo(service))
          checkGitBodyHeaders(request.raw, service, maxBytes)
          const pusher = service === 'git-receive-pack' ? pusherOf(request, target, caller) : null
          return answer(request, reply, target, caller, { service, step: 'rpc', pusher })
        },
      })
  }
}

/** Returns the repository that a path names, with or without `.git`. */
function targetOf({ params: { owner, repo } }: FastifyRequest<Route>): Target {
  if (owner === '' || repo === '') throw new ServiceError('path_unknown')
  return { owner, name: repo.endsWith(SUFFIX) ? repo.slice(0, -SUFFIX.length) : repo }
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

/** Returns what follows the first `?`. */
function queryOf(url: string): string {
  const mark = url.indexOf('?')
  return mark === -1 ? '' : url.slice(mark + 1)
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
