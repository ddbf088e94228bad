import type { FastifyInstance } from 'fastify'
import { combinedState, presentStates } from '../domain/combined-state.ts'
import { commitsOf } from '../domain/commits.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import type { ReportedStatus } from '../store/statuses.ts'
import type { Store } from '../store/store.ts'
import { commitView } from './commit-views.ts'
import type { SendErrorPage } from './error-page.ts'
import { repositoryFinder } from './find-repository.ts'
import { renderChunks } from './layout.ts'
import type { PageScheduler } from './page-scheduler.ts'
import { streamPage } from './stream-page.ts'

interface CommitPagesOptions {
  store: Store
  lookup: CommitLookup
  scheduler: PageScheduler
  sendErrorPage: SendErrorPage
}

/** Statuses read at a time. */
const STATUSES = 100

interface CommitRoute {
  Params: { owner: string; repo: string; sha: string }
}

/** Registers `/{owner}/{repo}/commits/{sha}`, limited to what the visitor may see. */
export async function commitPages(app: FastifyInstance, options: CommitPagesOptions): Promise<void> {
  const { store, scheduler } = options
  const commits = commitsOf(store.statuses, options.lookup)
  const findRepository = repositoryFinder(app, options)

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
    return streamPage(request, reply, renderChunks({ title, visitor: request.visitor }, content), scheduler)
  })

  /** Yields all statuses of the commit, starting with `part`. Reads further ones on demand. */
  async function* allStatuses(
    repositoryId: number,
    sha: string,
    part: ReportedStatus[],
  ): AsyncGenerator<ReportedStatus> {
    for (;;) {
      yield* part
      const last = part.at(-1)
      if (part.length < STATUSES || last === undefined) return
      part = await store.statuses.listPart(repositoryId, sha, last.context, STATUSES)
    }
  }
}
