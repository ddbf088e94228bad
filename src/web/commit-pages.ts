import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { combinedState } from '../domain/combined-state.ts'
import { commitsOf } from '../domain/commits.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import type { CommitLog } from '../git/log.ts'
import { RepositoryUnavailable } from '../git/repository.ts'
import { isName, isOwnerName, isReserved } from '../store/names.ts'
import type { Store } from '../store/store.ts'
import type { VisibleRepository } from '../store/visible.ts'
import { commitView, repositoriesView, repositoryView } from './commit-views.ts'
import type { SendFault } from './error-page.ts'
import { type Html, page } from './layout.ts'

interface CommitPagesOptions {
  store: Store
  lookup: CommitLookup
  commitLog: CommitLog
  sendFault: SendFault
  publicUrl: string | null
}

const REPOSITORIES = 100

/** `/`, `/{owner}/{repo}` and `/{owner}/{repo}/commits/{sha}`: what the visitor may see. */
export async function commitPages(app: FastifyInstance, options: CommitPagesOptions): Promise<void> {
  const { store, commitLog, sendFault, publicUrl } = options
  const commits = commitsOf(store.statuses, options.lookup)

  const send = async (request: FastifyRequest, reply: FastifyReply, title: string, content: Html) => {
    const text = await page({ title, visitor: request.visitor }, content)
    return reply.type('text/html; charset=utf-8').send(text)
  }

  /** Private and missing are the same: an anonymous visitor is asked to sign in, a signed-in one gets 404. */
  const visible = async (request: FastifyRequest, reply: FastifyReply): Promise<VisibleRepository | null> => {
    const { owner = '', repo = '' }: { owner?: string; repo?: string } = Object(request.params)
    // The router takes an empty segment, and the site's own words in any case, for the name of an owner.
    if (owner === '' || repo === '' || isReserved(owner)) throw new ServiceError('path_unknown')
    const { user } = request.visitor
    const possible = isOwnerName(owner) && isName(repo)
    const found = await store.visible.find(user?.id ?? null, possible ? owner : '', possible ? repo : '')
    if (found) return found
    if (user) throw new ServiceError('repository_unknown')
    reply.redirect(`/login?next=${encodeURIComponent(request.url)}`, 303)
    return null
  }

  app.setErrorHandler(async (fault, request, reply) => {
    let answer = fault
    // Files that cannot be opened may be those of a repository that was just deleted: then it is missing.
    if (fault instanceof RepositoryUnavailable) {
      try {
        if (!(await visible(request, reply))) return reply
      } catch (missing) {
        answer = missing
      }
    }
    return sendFault(answer, request, reply)
  })

  app.get<{ Querystring: { after?: string | string[] } }>('/', async (request, reply) => {
    const [owner = '', name = ''] = ([request.query.after].flat()[0] ?? '').split('/')
    const after = isOwnerName(owner) && isName(name) ? { owner, name } : undefined
    const found = await store.visible.list(request.visitor.user?.id ?? null, REPOSITORIES + 1, after)
    const shown = found.slice(0, REPOSITORIES)
    const last = found.length > REPOSITORIES ? shown.at(-1) : undefined
    return send(request, reply, 'Repositories', repositoriesView(shown, request.visitor, last))
  })

  app.get('/:owner/:repo', async (request, reply) => {
    const repository = await visible(request, reply)
    if (!repository) return reply
    const log = await commitLog.newest(repository, request.client.address, request.signal)
    const states = await store.statuses.states(
      repository.id,
      log.map(({ sha }) => sha),
    )
    const rows = log.map((commit) => ({ ...commit, states: states.get(commit.sha) ?? [] }))
    const origin = publicUrl ?? request.client.origin
    return send(
      request,
      reply,
      `${repository.owner}/${repository.name}`,
      repositoryView(repository, rows, origin),
    )
  })

  app.get<{ Params: { sha: string } }>('/:owner/:repo/commits/:sha', async (request, reply) => {
    if (request.params.sha === '') throw new ServiceError('path_unknown')
    const repository = await visible(request, reply)
    if (!repository) return reply
    const sha = commits.fullId(repository, request.params.sha)
    const statuses = await store.statuses.list(repository.id, sha)
    if (statuses.length === 0 && !(await commits.inGit(repository, sha)))
      throw new ServiceError('commit_unknown')
    const state = combinedState(statuses.map((status) => status.state))
    const title = `${sha.slice(0, 10)} · ${repository.owner}/${repository.name}`
    return send(request, reply, title, commitView(repository, sha, state, statuses))
  })
}
