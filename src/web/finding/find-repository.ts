import type { FastifyReply, FastifyRequest } from 'fastify'
import { RenamedError } from '../../auth/access-policy.ts'
import { isRepositoryPath } from '../../domain/names.ts'
import { ServiceError } from '../../errors.ts'
import { connectionSignal } from '../../http/connection-signal.ts'
import { recheckAccess } from '../../replies/recheck-access.ts'
import type { QueueClient } from '../../schedule/fair-queue.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import type { PageContext } from '../routing/page-context.ts'
import type { Pages } from '../routing/pages.ts'
import { sessionOf, signInPath } from '../session/session-auth.ts'

export interface RepositoryRoute {
  Params: { owner: string; repo: string }
}

/** Returns the client for which a page asks git, until its connection is closed. */
export function gitClient({ client, raw }: FastifyRequest): QueueClient {
  return { address: client.address, signal: connectionSignal(raw.socket) }
}

/**
 * Returns a function that finds the repository of a page. For a private or missing one it redirects
 * an anonymous user to the sign-in page and returns null: the request is answered. A signed-in user
 * gets 404. Who may read a repository that had the name is told what it is called now.
 *
 * @param pages get an error handler that checks access again when a repository cannot be opened, or
 * is gone
 */
export function createRepositoryFinder(pages: Pages, { store, sendErrorPage }: PageContext) {
  /** The ids of the repositories that were found for requests. */
  const found = new WeakMap<FastifyRequest, number>()
  const find = async (
    request: FastifyRequest<RepositoryRoute>,
    reply: FastifyReply,
  ): Promise<ReadableRepository | null> => {
    const { owner, repo } = request.params
    if (!isRepositoryPath(owner, repo)) throw new ServiceError('path_unknown')
    const { user } = sessionOf(request)
    const repository = await store.listing.find(user?.id ?? null, owner, repo)
    // Another repository may have the name by now.
    const isSame = repository && (found.get(request) ?? repository.id) === repository.id
    if (isSame) {
      found.set(request, repository.id)
      return repository
    }
    const renamed = await store.listing.findRenamed(user?.id ?? null, owner, repo)
    if (renamed) throw new RenamedError(user === null, renamed)
    if (user) throw new ServiceError('repository_unknown')
    reply.redirect(signInPath(request.url), 303)
    return null
  }
  // Access is rechecked only on routes that open a repository, which have its parameters.
  pages.onError<RepositoryRoute>(async (error, request, reply) => {
    const current = await recheckAccess(error, () => find(request, reply))
    return reply.sent ? reply : sendErrorPage(current, request, reply)
  })
  return find
}
