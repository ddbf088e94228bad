import type { FastifyReply, FastifyRequest } from 'fastify'
import { isRepositoryPath } from '../../../domain/names.ts'
import { ServiceError } from '../../../errors.ts'
import { RepositoryUnavailable } from '../../../git/errors.ts'
import { etagOf, matchesEtag } from '../../../http/etag.ts'
import { applyErrorHeaders, asServiceError, sendError } from '../../../replies/error-replies.ts'
import { gitClient, type RepositoryRoute } from '../../finding/find-repository.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { stateOfSummary } from '../../statuses/commit-row.ts'
import { badgeView, type Message } from './badge-view.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'ref' | 'context'>
}

/** Seconds for which caches may show a badge. */
const MAX_AGE = 60
/** What is on the left of a badge that is not about one context. */
const LABEL = 'checks'
const POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"

/**
 * Registers `/{owner}/{repo}/badge.svg`: the state of a branch or tag (`ref`; by default HEAD), or
 * of one context on it.
 *
 * Caches share it between users, so it shows only what anonymous users may see, and neither cookies
 * nor tokens are read. What they may not see and what does not exist get the same badge.
 */
export async function badgePage(pages: Pages, { store, refs }: PageContext): Promise<void> {
  pages.onError((cause, _request, reply) => {
    const error = asServiceError(cause)
    if (error.code !== 'unavailable') return sendError(reply, error, '')
    applyErrorHeaders(reply, error)
    return send(reply, LABEL, 'unavailable')
  })

  pages.get<Route>('/:owner/:repo/badge.svg', async (request, reply) => {
    const { owner, repo } = request.params
    if (!isRepositoryPath(owner, repo)) throw new ServiceError('path_unknown')
    const context = firstOf(request.query.context)
    const message = await find(request, context).catch(async (error: unknown) => {
      const isDeleted =
        error instanceof RepositoryUnavailable && !(await store.listing.find(null, owner, repo))
      if (isDeleted) return null
      throw error
    })
    reply.header('cache-control', `public, max-age=${MAX_AGE}`)
    if (message === null) return send(reply.code(404), LABEL, 'unknown')
    const text = badgeView(context || LABEL, message).toString()
    const etag = etagOf(text)
    reply.header('etag', etag)
    if (matchesEtag(request.headers['if-none-match'], etag)) return setHeaders(reply).code(304).send()
    return setHeaders(reply).send(text)
  })

  /** Returns the state to show; null if anonymous users may not see it or it does not exist. */
  async function find(request: FastifyRequest<Route>, context: string): Promise<Message | null> {
    const { owner, repo } = request.params
    const { listing } = store
    // It goes on working in documents that were written before a repository was renamed.
    const repository =
      (await listing.find(null, owner, repo)) ?? (await listing.findRenamed(null, owner, repo))
    if (!repository) return null
    const client = gitClient(request)
    const list = await refs.list(repository, client)
    const refName = firstOf(request.query.ref)
    const sha = refName ? (await refs.find(repository, list, refName, client))?.sha : list.head
    if (!sha) return null
    if (context) return (await store.summaries.findState(repository.id, sha, context)) ?? 'no status'
    const [summary] = await store.summaries.list([{ repositoryId: repository.id, sha }])
    return (summary && stateOfSummary(summary)) ?? 'no status'
  }
}

async function send(reply: FastifyReply, label: string, message: Message): Promise<FastifyReply> {
  return setHeaders(reply).send(badgeView(label, message).toString())
}

function setHeaders(reply: FastifyReply): FastifyReply {
  return reply
    .type('image/svg+xml; charset=utf-8')
    .header('content-security-policy', POLICY)
    .header('cross-origin-resource-policy', 'cross-origin')
}
