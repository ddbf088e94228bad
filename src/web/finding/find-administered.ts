import type { FastifyReply, FastifyRequest } from 'fastify'
import { RenamedError } from '../../auth/access-policy.ts'
import { allows } from '../../domain/permissions.ts'
import { ServiceError } from '../../errors.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import type { PageContext } from '../routing/page-context.ts'
import type { Pages } from '../routing/pages.ts'
import { sessionOf, signInPath } from '../session/session-auth.ts'
import { createRepositoryFinder, type RepositoryRoute } from './find-repository.ts'

/**
 * Returns a function that finds the repository of a page for its admins. It answers others like
 * `createRepositoryFinder`, and with 403 if they may read; an anonymous user signs in first.
 */
export function createAdministeredFinder(pages: Pages, context: PageContext) {
  const find = createRepositoryFinder(pages, context)

  /** Says to an admin, whose form was open while the repository was renamed, what it is called. */
  const orRenamed = (request: FastifyRequest<RepositoryRoute>) => async (error: unknown) => {
    const { user } = sessionOf(request)
    const isUnknown = error instanceof ServiceError && error.code === 'repository_unknown'
    if (!isUnknown || request.method !== 'POST' || !user) throw error
    const { owner, repo } = request.params
    const renamed = await context.store.listing.findRenamed(user.id, owner, repo)
    if (!renamed || !allows(renamed.permission, 'admin')) throw error
    throw new RenamedError(
      false,
      renamed,
      `${owner}/${repo} is called ${renamed.owner}/${renamed.name} by now. Nothing was changed.`,
    )
  }

  return async (
    request: FastifyRequest<RepositoryRoute>,
    reply: FastifyReply,
  ): Promise<ReadableRepository | null> => {
    const repository = await find(request, reply).catch(orRenamed(request))
    if (!repository) return null
    if (!sessionOf(request).user) {
      reply.redirect(signInPath(request.url), 303)
      return null
    }
    if (!allows(repository.permission, 'admin')) throw new ServiceError('not_admin')
    return repository
  }
}
