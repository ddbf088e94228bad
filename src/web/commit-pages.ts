import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { combinedState, presentStates } from '../domain/combined-state.ts'
import { commitsOf } from '../domain/commits.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import type { Commit, CommitLog } from '../git/log.ts'
import { recheckAccess } from '../hooks/recheck-access.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import { isName, isOwnerName, isReserved } from '../store/names.ts'
import type { ListedRepository } from '../store/repository-listing.ts'
import type { StatusRow } from '../store/statuses.ts'
import type { Store } from '../store/store.ts'
import { type CountedCommit, commitView, repositoriesView, repositoryView } from './commit-views.ts'
import type { SendErrorPage } from './error-page.ts'
import { type Html, renderChunks } from './layout.ts'
import type { PageScheduler } from './page-scheduler.ts'
import { streamPage } from './stream-page.ts'

interface CommitPagesOptions {
  store: Store
  lookup: CommitLookup
  commitLog: CommitLog
  scheduler: PageScheduler
  sendErrorPage: SendErrorPage
  publicUrl: string | null
}

/** Repositories per page. */
const REPOSITORIES = 100
/** Statuses read at a time. */
const STATUSES = 100
/** How long a step counts statuses, in milliseconds. */
const STEP = 2

interface RepositoryRoute {
  Params: { owner: string; repo: string }
}

interface CommitRoute {
  Params: { owner: string; repo: string; sha: string }
}

/** Registers `/`, `/{owner}/{repo}` and `/{owner}/{repo}/commits/{sha}`, limited to what the visitor may see. */
export async function commitPages(app: FastifyInstance, options: CommitPagesOptions): Promise<void> {
  const { store, commitLog, scheduler, sendErrorPage, publicUrl } = options
  const commits = commitsOf(store.statuses, options.lookup)

  const send = (
    request: FastifyRequest,
    reply: FastifyReply,
    title: string,
    content: Iterable<Html> | AsyncIterable<Html>,
  ) => streamPage(request, reply, renderChunks({ title, visitor: request.visitor }, content), scheduler)

  /**
   * Returns the repository of a page. For a private or missing one it redirects an anonymous visitor to the sign-in page
   * and returns null; a signed-in visitor gets 404.
   */
  const findRepository = async (
    request: FastifyRequest<RepositoryRoute>,
    reply: FastifyReply,
  ): Promise<ListedRepository | null> => {
    const { owner, repo } = request.params
    // The router also matches empty segments, and reserved words in any case.
    if (owner === '' || repo === '' || isReserved(owner)) throw new ServiceError('path_unknown')
    const { user } = request.visitor
    const possible = isOwnerName(owner) && isName(repo)
    const found = await store.listing.find(user?.id ?? null, possible ? owner : '', possible ? repo : '')
    if (found) return found
    if (user) throw new ServiceError('repository_unknown')
    reply.redirect(`/login?next=${encodeURIComponent(request.url)}`, 303)
    return null
  }

  // Access is rechecked only on routes that open a repository, which have its parameters.
  app.setErrorHandler<unknown, RepositoryRoute>(async (error, request, reply) => {
    const current = await recheckAccess(error, () => findRepository(request, reply))
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

  app.get<RepositoryRoute>('/:owner/:repo', async (request, reply) => {
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const signal = connectionSignal(request.raw.socket)
    const log = await commitLog.newest(repository, request.client.address, signal)
    const rows = await countStatuses(request, repository.id, log)
    const origin = publicUrl ?? request.client.origin
    const title = `${repository.owner}/${repository.name}`
    return send(request, reply, title, [repositoryView(repository, rows, origin)])
  })

  app.get<CommitRoute>('/:owner/:repo/commits/:sha', async (request, reply) => {
    if (request.params.sha === '') throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
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
    const content = commitView(repository, sha, combinedState(states), allStatuses(repository.id, sha, first))
    return send(request, reply, title, content)
  })

  /** Counts the statuses of each commit, in as many steps as needed: a commit may have thousands. */
  async function countStatuses(
    request: FastifyRequest,
    repositoryId: number,
    log: readonly Commit[],
  ): Promise<CountedCommit[]> {
    const counted: CountedCommit[] = []
    let end = Number.NEGATIVE_INFINITY
    for (const commit of log) {
      if (performance.now() > end) {
        await scheduler.step(request)
        end = performance.now() + STEP
      }
      const counts = await store.statuses.counts(repositoryId, commit.sha)
      counted.push({ ...commit, counts })
    }
    return counted
  }

  /** Yields all statuses of the commit, starting with `part`. Reads further ones on demand. */
  async function* allStatuses(
    repositoryId: number,
    sha: string,
    part: StatusRow[],
  ): AsyncGenerator<StatusRow> {
    for (;;) {
      yield* part
      const last = part.at(-1)
      if (part.length < STATUSES || last === undefined) return
      part = await store.statuses.listPart(repositoryId, sha, last.context, STATUSES)
    }
  }
}
