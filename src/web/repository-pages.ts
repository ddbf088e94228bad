import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Commit, CommitLog } from '../git/log.ts'
import { connectionSignal } from '../http/connection-signal.ts'
import { isName, isOwnerName } from '../store/names.ts'
import type { Store } from '../store/store.ts'
import type { SendErrorPage } from './error-page.ts'
import { type RepositoryRoute, repositoryFinder } from './find-repository.ts'
import { type Html, renderChunks } from './layout.ts'
import type { PageScheduler } from './page-scheduler.ts'
import { type CountedCommit, repositoriesView, repositoryView } from './repository-views.ts'
import { streamPage } from './stream-page.ts'

interface RepositoryPagesOptions {
  store: Store
  commitLog: CommitLog
  scheduler: PageScheduler
  sendErrorPage: SendErrorPage
  publicUrl: string | null
}

/** Repositories per page. */
const REPOSITORIES = 100
/** How long a step counts statuses, in milliseconds. */
const STEP = 2

/** Registers `/` and `/{owner}/{repo}`, limited to what the visitor may see. */
export async function repositoryPages(app: FastifyInstance, options: RepositoryPagesOptions): Promise<void> {
  const { store, commitLog, scheduler, publicUrl } = options
  const findRepository = repositoryFinder(app, options)

  const send = (
    request: FastifyRequest,
    reply: FastifyReply,
    title: string,
    content: Iterable<Html> | AsyncIterable<Html>,
  ) => streamPage(request, reply, renderChunks({ title, visitor: request.visitor }, content), scheduler)

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
}
