import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { combinedState, presentStates } from '../domain/combined-state.ts'
import { commitsOf } from '../domain/commits.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import type { Commit, CommitLog } from '../git/log.ts'
import { recheckAccess } from '../hooks/recheck-access.ts'
import { isName, isOwnerName, isReserved } from '../store/names.ts'
import type { ListedRepository } from '../store/repository-listing.ts'
import type { StatusRow } from '../store/statuses.ts'
import type { Store } from '../store/store.ts'
import { type CountedCommit, commitView, repositoriesView, repositoryView } from './commit-views.ts'
import type { SendErrorPage } from './error-page.ts'
import { type Html, pieces } from './layout.ts'
import { sendPieces } from './send-pieces.ts'
import type { Turns } from './turns.ts'

interface CommitPagesOptions {
  store: Store
  lookup: CommitLookup
  commitLog: CommitLog
  turns: Turns
  sendErrorPage: SendErrorPage
  publicUrl: string | null
}

const REPOSITORIES = 100
/** Statuses that are read at a time. */
const STATUSES = 100
/** Milliseconds after which the next step begins. */
const STEP = 2

/** `/`, `/{owner}/{repo}` and `/{owner}/{repo}/commits/{sha}`: what the visitor may see. */
export async function commitPages(app: FastifyInstance, options: CommitPagesOptions): Promise<void> {
  const { store, commitLog, turns, sendErrorPage, publicUrl } = options
  const commits = commitsOf(store.statuses, options.lookup)

  const send = (
    request: FastifyRequest,
    reply: FastifyReply,
    title: string,
    content: Iterable<Html> | AsyncIterable<Html>,
  ) => sendPieces(request, reply, pieces({ title, visitor: request.visitor }, content), turns)

  /** Private and missing are the same: an anonymous visitor is asked to sign in, a signed-in one gets 404. */
  const visible = async (request: FastifyRequest, reply: FastifyReply): Promise<ListedRepository | null> => {
    const { owner = '', repo = '' }: { owner?: string; repo?: string } = Object(request.params)
    // The router takes an empty segment, and the site's own words in any case, for the name of an owner.
    if (owner === '' || repo === '' || isReserved(owner)) throw new ServiceError('path_unknown')
    const { user } = request.visitor
    const possible = isOwnerName(owner) && isName(repo)
    const found = await store.listing.find(user?.id ?? null, possible ? owner : '', possible ? repo : '')
    if (found) return found
    if (user) throw new ServiceError('repository_unknown')
    reply.redirect(`/login?next=${encodeURIComponent(request.url)}`, 303)
    return null
  }

  app.setErrorHandler(async (fault, request, reply) => {
    const current = await recheckAccess(fault, () => visible(request, reply))
    return reply.sent ? reply : sendErrorPage(current, request, reply)
  })

  app.get<{ Querystring: { after?: string | string[] } }>('/', async (request, reply) => {
    const [owner = '', name = ''] = ([request.query.after].flat()[0] ?? '').split('/')
    const after = isOwnerName(owner) && isName(name) ? { owner, name } : undefined
    const found = await store.listing.list(request.visitor.user?.id ?? null, REPOSITORIES + 1, after)
    const shown = found.slice(0, REPOSITORIES)
    const last = found.length > REPOSITORIES ? shown.at(-1) : undefined
    return send(request, reply, 'Repositories', [repositoriesView(shown, request.visitor, last)])
  })

  app.get('/:owner/:repo', async (request, reply) => {
    const repository = await visible(request, reply)
    if (!repository) return reply
    const log = await commitLog.newest(repository, request.client.address, request.signal)
    const rows = await countStatuses(request, repository.id, log)
    const origin = publicUrl ?? request.client.origin
    const title = `${repository.owner}/${repository.name}`
    return send(request, reply, title, [repositoryView(repository, rows, origin)])
  })

  app.get<{ Params: { sha: string } }>('/:owner/:repo/commits/:sha', async (request, reply) => {
    if (request.params.sha === '') throw new ServiceError('path_unknown')
    const repository = await visible(request, reply)
    if (!repository) return reply
    const sha = commits.fullId(repository, request.params.sha)
    const first = await store.statuses.listPart(repository.id, sha, '', STATUSES)
    if (first.length === 0 && !(await commits.inGit(repository, sha)))
      throw new ServiceError('commit_unknown')
    const states =
      first.length < STATUSES
        ? first.map(({ state }) => state)
        : presentStates(await store.statuses.counts(repository.id, sha))
    const title = `${sha.slice(0, 10)} · ${repository.owner}/${repository.name}`
    const content = commitView(repository, sha, combinedState(states), resume(repository.id, sha, first))
    return send(request, reply, title, content)
  })

  /** Takes as many steps as it needs: each commit may have thousands of statuses. */
  async function countStatuses(
    request: FastifyRequest,
    repositoryId: number,
    log: readonly Commit[],
  ): Promise<CountedCommit[]> {
    const counted: CountedCommit[] = []
    let end = Number.NEGATIVE_INFINITY
    for (const commit of log) {
      if (performance.now() > end) {
        await turns.next(request)
        end = performance.now() + STEP
      }
      const counts = await store.statuses.counts(repositoryId, commit.sha)
      counted.push({ ...commit, counts })
    }
    return counted
  }

  /** All statuses of the commit, of which `part` was read; the next ones are read when they are wanted. */
  async function* resume(repositoryId: number, sha: string, part: StatusRow[]): AsyncGenerator<StatusRow> {
    for (;;) {
      yield* part
      const last = part.at(-1)
      if (part.length < STATUSES || last === undefined) return
      part = await store.statuses.listPart(repositoryId, sha, last.context, STATUSES)
    }
  }
}
