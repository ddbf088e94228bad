import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Authorizer } from '../auth/authorizer.ts'
import { readCredential, type SchemeReader } from '../auth/credential.ts'
import type { Demand } from '../auth/judge.ts'
import { ServiceError } from '../errors.ts'
import { checkConfig, type RepositoryFolder } from '../git/config-check.ts'
import { type BackendCall, BackendTimeout, type GitService, HttpBackend } from '../git/http-backend.ts'
import { checkOpenable, RepositoryUnavailable } from '../git/openable.ts'
import { sharingUmask } from '../git/sharing.ts'
import { valuesOf } from '../http/headers.ts'
import { breakBody } from '../http/linger.ts'
import { sendError } from '../http/replies.ts'
import { readBasic } from './basic.ts'
import { bodyLimit, checkGitBodyHeaders, passBody } from './body.ts'

export interface GitLimits {
  /** Largest push in bytes. */
  maxBytes: number
  /** Milliseconds that one request may take. */
  timeout: number
  /** Most requests at a time that git works on. */
  maxChildren: number
}

export interface GitHttpOptions {
  authorizer: Authorizer
  limits: GitLimits
  /** Milliseconds for the body of a fetch to arrive. */
  bodyTimeout: number
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

/** Git over HTTP, at `/{owner}/{repo}.git`: the smart protocol, by git itself (gitprotocol-http(5)). */
export async function gitHttp(app: FastifyInstance, options: GitHttpOptions): Promise<void> {
  const { authorizer, limits, bodyTimeout } = options
  const repositories = new WeakMap<FastifyRequest, RepositoryFolder>()
  let children = 0

  /** Steps 2 to 6 of the order in which a request is judged. What follows may cost something. */
  async function authorize(request: FastifyRequest, access: Demand['access']): Promise<void> {
    const credential = readCredential(valuesOf(request.raw.rawHeaders, 'authorization'), readers)
    const { owner, name } = namesOf(request)
    const attempt = { credential, address: request.client.address }
    const demand = { access, scopes: ['repo'] }
    const { repository } = await authorizer.authorize(attempt, owner, name, demand)
    repositories.set(request, repository)
  }

  async function serve(
    request: FastifyRequest,
    reply: FastifyReply,
    call: Pick<BackendCall, 'service' | 'step'>,
  ): Promise<FastifyReply> {
    const { raw } = request
    const repository = repositories.get(request)
    if (repository === undefined) throw new Error('a repository is served only to those who were authorized')
    const { path } = repository
    await checkOpenable(path)
    await checkConfig(repository)
    const what = call.step === 'refs' ? 'advertisement' : 'result'
    reply.header('cache-control', 'no-store').type(`application/x-${call.service}-${what}`)
    if (request.method === 'HEAD') return reply.send('')

    const umask = repository.managed ? undefined : await sharingUmask(path)
    if (children >= limits.maxChildren) throw new ServiceError('git_busy')
    const protocol = raw.headers['git-protocol']?.toString()
    const backend = new HttpBackend(
      { ...call, path, umask, protocol: protocol && PROTOCOL.test(protocol) ? protocol : undefined },
      limits.timeout,
      (end, complaint) => {
        children -= 1
        if (complaint !== '')
          request.log.info({ service: call.service, path, end, complaint }, 'git complained')
      },
    )
    children += 1
    const gone = () => backend.stop(new ServiceError('malformed_request'))
    reply.raw.once('close', gone)
    if (reply.raw.destroyed) gone()
    try {
      const received =
        call.step === 'rpc' ? receive(request, reply, backend, call.service) : Promise.resolve()
      const answer = await backend.answer(received)
      received.catch((error) => backend.stop(error))
      return await reply.send(answer)
    } catch (error) {
      backend.stop(new ServiceError('unavailable'))
      if (error instanceof BackendTimeout && !raw.complete) throw new ServiceError('too_slow')
      throw error instanceof BackendTimeout
        ? new ServiceError('unavailable', undefined, { cause: error })
        : error
    }
  }

  function receive(
    { raw }: FastifyRequest,
    reply: FastifyReply,
    backend: HttpBackend,
    service: GitService,
  ): Promise<void> {
    if (raw.headers.expect !== undefined && raw.httpVersion === '1.1') reply.raw.writeContinue()
    const received = passBody(raw, backend.input, bodyLimit(service, limits.maxBytes))
    if (service === 'git-receive-pack') return received
    // What a fetch asks for is short: whoever does not send it must not keep a place.
    const timer = setTimeout(() => breakBody(raw), bodyTimeout)
    return received.finally(() => clearTimeout(timer))
  }

  app.setErrorHandler(async (error, request, reply) => {
    if (error instanceof RepositoryUnavailable) {
      // Files that cannot be opened may be those of a repository that was just deleted: then it is missing.
      await authorize(request, 'read').catch((fault) => sendError(reply, fault, CHALLENGE))
      if (reply.sent) return reply
    }
    return sendError(reply, error, CHALLENGE)
  })
  // The router takes an empty segment for a parameter; no name is empty.
  app.addHook('onRequest', async (request) => {
    const { owner, segment } = namesOf(request)
    if (owner === '' || segment === '') throw new ServiceError('path_unknown')
  })

  app.get('/:owner/:repo/info/refs', async (request, reply) => {
    const { owner, segment } = namesOf(request)
    const query = queryOf(request.url)
    if (!segment.endsWith(SUFFIX)) {
      const path = `/${encodeURIComponent(owner)}/${encodeURIComponent(segment)}${SUFFIX}/info/refs`
      return reply
        .header('cache-control', 'no-store')
        .redirect(query === undefined ? path : `${path}?${query}`, 301)
    }
    const service = serviceOf(query ?? '')
    await authorize(request, service === 'git-receive-pack' ? 'write' : 'read')
    if (service === null) throw new ServiceError('git_service_unknown')
    return serve(request, reply, { service, step: 'refs' })
  })

  for (const service of SERVICES) {
    app.post(`/:owner/:name([^]*)${SUFFIX}/${service}`, {
      async onRequest(request) {
        await authorize(request, service === 'git-receive-pack' ? 'write' : 'read')
        checkGitBodyHeaders(request.raw, service, bodyLimit(service, limits.maxBytes))
      },
      handler: (request, reply) => serve(request, reply, { service, step: 'rpc' }),
    })
  }
}

/** The repository's name, and the `segment` of the path that holds it: a route takes out the name alone, or the segment. */
function namesOf(request: FastifyRequest): { owner: string; name: string; segment: string } {
  const params: { owner?: string; repo?: string; name?: string } = Object(request.params)
  const { owner = '', repo = '', name } = params
  if (name !== undefined) return { owner, name, segment: `${name}${SUFFIX}` }
  return { owner, name: repo.endsWith(SUFFIX) ? repo.slice(0, -SUFFIX.length) : repo, segment: repo }
}

/** What follows the first `?`; undefined where there is none. */
function queryOf(url: string): string | undefined {
  const mark = url.indexOf('?')
  return mark === -1 ? undefined : url.slice(mark + 1)
}

/** null: not one service by its full name. */
function serviceOf(query: string): GitService | null {
  const [name, ...others] = new URLSearchParams(query).getAll('service')
  return (others.length === 0 && SERVICES.find((service) => service === name)) || null
}
