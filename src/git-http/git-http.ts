import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { scopes } from '../../generated/operations.ts'
import type { Demand } from '../auth/access-policy.ts'
import type { Authorizer } from '../auth/authorizer.ts'
import { readCredential, type SchemeReader } from '../auth/credential.ts'
import { ServiceError } from '../errors.ts'
import { gitDirOf, type RepositoryFolder } from '../git/git-dir.ts'
import type { BackendCall, GitService } from '../git/http-backend.ts'
import { checkRepositoryFiles } from '../git/repository-health.ts'
import { sendError } from '../hooks/error-replies.ts'
import { recheckAccess } from '../hooks/recheck-access.ts'
import { headerValues } from '../http/header-values.ts'
import { readBasic } from './basic.ts'
import { bodyLimit, checkGitBodyHeaders } from './body.ts'
import { createGitServer, type GitLimits } from './serve.ts'

export interface GitHttpOptions {
  authorizer: Authorizer
  limits: GitLimits
  /** Milliseconds for the body of a fetch to arrive. */
  bodyTimeout: number
}

/** A repository as the path of a request names it. */
interface Target {
  owner: string
  name: string
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
  const serveGit = createGitServer(limits, bodyTimeout)
  /** The repositories that were authorized before the body was looked at. */
  const authorized = new WeakMap<IncomingMessage, RepositoryFolder>()

  /** Steps 2 to 6 of the order of checks. Returns the repository. What follows may cost something. */
  async function authorize(
    request: FastifyRequest,
    { owner, name }: Target,
    access: Demand['access'],
  ): Promise<RepositoryFolder> {
    const credential = readCredential(headerValues(request.raw.rawHeaders, 'authorization'), readers)
    const attempt = { credential, address: request.client.address }
    const demand = { access, scopes: [scopes.repo] }
    const { repository } = await authorizer.authorize(attempt, owner, name, demand)
    return repository
  }

  async function answer(
    request: FastifyRequest,
    reply: FastifyReply,
    target: Target,
    repository: RepositoryFolder,
    call: Pick<BackendCall, 'service' | 'step'>,
  ): Promise<FastifyReply> {
    const kind = call.step === 'refs' ? 'advertisement' : 'result'
    reply.header('cache-control', 'no-store').type(`application/x-${call.service}-${kind}`)
    try {
      if (request.method !== 'HEAD') {
        const protocol = protocolOf(request.raw)
        return reply.send(await serveGit(request, reply, repository, { ...call, protocol }))
      }
      await checkRepositoryFiles(repository.path)
      await gitDirOf(repository)
      return reply.send('')
    } catch (error) {
      throw await recheckAccess(error, () => authorize(request, target, 'read'))
    }
  }

  app.setErrorHandler(async (error, _request, reply) => sendError(reply, error, CHALLENGE))

  app.get<{ Params: { owner: string; repo: string } }>('/:owner/:repo/info/refs', async (request, reply) => {
    const { owner, repo } = request.params
    if (owner === '' || repo === '') throw new ServiceError('path_unknown')
    const query = queryOf(request.url)
    if (!repo.endsWith(SUFFIX)) {
      const path = `/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}${SUFFIX}/info/refs`
      return reply
        .header('cache-control', 'no-store')
        .redirect(query === undefined ? path : `${path}?${query}`, 301)
    }
    const target = { owner, name: repo.slice(0, -SUFFIX.length) }
    const service = serviceOf(query ?? '')
    const repository = await authorize(request, target, accessTo(service))
    if (service === null) throw new ServiceError('git_service_unknown')
    return answer(request, reply, target, repository, { service, step: 'refs' })
  })

  for (const service of SERVICES) {
    app.post<{ Params: Target }>(`/:owner/:name([^]*)${SUFFIX}/${service}`, {
      async onRequest(request) {
        if (request.params.owner === '') throw new ServiceError('path_unknown')
        authorized.set(request.raw, await authorize(request, request.params, accessTo(service)))
        checkGitBodyHeaders(request.raw, service, bodyLimit(service, limits.maxBytes))
      },
      async handler(request, reply) {
        const repository = authorized.get(request.raw)
        if (repository === undefined) throw new Error('a repository is served only after authorization')
        return answer(request, reply, request.params, repository, { service, step: 'rpc' })
      },
    })
  }
}

function accessTo(service: GitService | null): Demand['access'] {
  return service === 'git-receive-pack' ? 'write' : 'read'
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

/** The client's `Git-Protocol` header, if git may see it. */
function protocolOf({ headers }: IncomingMessage): string | undefined {
  const protocol = headers['git-protocol']?.toString()
  return protocol !== undefined && PROTOCOL.test(protocol) ? protocol : undefined
}
