import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'hono/html'
import { schemas } from '../../generated/schemas.ts'
import { commitsOf } from '../domain/commits.ts'
import { type RequiredContexts, requiredContexts } from '../domain/required-contexts.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import type { RefLists } from '../git/refs.ts'
import { RepositoryUnavailable } from '../git/repository.ts'
import type { Revisions } from '../git/revision.ts'
import { createEtag, matchesEtag } from '../http/etag.ts'
import type { ListedRepository } from '../store/repository-listing.ts'
import type { AppliedRule } from '../store/rules.ts'
import type { StatusCounts } from '../store/status-summaries.ts'
import type { Store } from '../store/store.ts'
import { nowInSeconds } from '../store/time.ts'
import { candidatesView, commitView, liveRegion, tabTitle } from './commit-views.ts'
import type { SendErrorPage } from './error-page.ts'
import { gitClient, repositoryFinder } from './find-repository.ts'
import { renderChunks } from './layout.ts'
import type { PageScheduler } from './page-scheduler.ts'
import { refQuery } from './ref-chooser.ts'
import { type Named, resolveCommit } from './resolve-commit.ts'
import { summarize } from './state-summary.ts'
import { type FilterQuery, readFilter } from './status-filter.ts'
import { isStalled, type StatusList } from './status-sections.ts'
import { streamPage } from './stream-page.ts'

interface CommitPagesOptions {
  store: Store
  lookup: CommitLookup
  refs: RefLists
  revisions: Revisions
  scheduler: PageScheduler
  sendErrorPage: SendErrorPage
  publicUrl: string | null
  stalledAfter: number
}

/** Statuses read at a time. */
const STATUSES = 100

interface CommitRoute {
  Params: { owner: string; repo: string; '*': string }
  Querystring: FilterQuery
}

interface LiveRoute {
  Params: { owner: string; repo: string; sha: string }
  Querystring: FilterQuery
}

/** Registers `/{owner}/{repo}/commits/{sha}` and the part of it that it polls, limited to what the visitor may see. */
export async function commitPages(app: FastifyInstance, options: CommitPagesOptions): Promise<void> {
  const { store, refs, revisions, scheduler, publicUrl, stalledAfter } = options
  const commits = commitsOf(store.statuses, options.lookup)
  const findRepository = repositoryFinder(app, options)

  app.get<CommitRoute>('/:owner/:repo/commits/*', async (request, reply) => {
    const name = request.params['*']
    // An empty segment is an unknown path, as everywhere.
    if (name.split('/').includes('')) throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const client = gitClient(request)
    const found = await resolveCommit({ refs, revisions, statuses: store.statuses }, repository, name, client)
    if (found.kind === 'commit') return sendCommit(request, reply, repository, found.sha)
    if (found.kind === 'ambiguous') return sendCandidates(request, reply, repository, found)
    const query = request.url.includes('?') ? request.url.slice(request.url.indexOf('?')) : ''
    return reply.redirect(`/${repository.owner}/${repository.name}/commits/${found.sha}${query}`, 303)
  })

  app.get<LiveRoute>('/:owner/:repo/live/:sha', { config: { polled: true } }, async (request, reply) => {
    if (request.params.sha === '') throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const sha = commits.fullId(repository, request.params.sha)
    const counts = await countsOf(repository, sha)
    const rules = await store.rules.load(repository.id)
    const list = { ...listOf(request, repository, sha, counts), withAges: false }
    // Computed before the answer is rendered, so the answer may be newer, and the next request finds that out.
    const etag = await etagOf(list, rules, request)
    reply.header('cache-control', 'private, no-cache').header('etag', etag)
    if (matchesEtag(request.headers['if-none-match'], etag)) return reply.code(304).send()
    const required = await requiredOf(rules, repository, sha)
    return streamPage(request, reply, liveRegion(repository, sha, { ...list, required }), scheduler)
  })

  async function sendCommit(
    request: FastifyRequest<CommitRoute>,
    reply: FastifyReply,
    repository: ListedRepository,
    sha: string,
  ): Promise<FastifyReply> {
    const counts = await countsOf(repository, sha)
    const rules = await store.rules.load(repository.id)
    const required = await requiredOf(rules, repository, sha)
    const { short, icon } = summarize(counts, required.missing.size)
    const tab = tabTitle(repository.name, sha, short)
    const content = commitView({
      repository,
      sha,
      ...(await describe(request, repository, sha)),
      statuses: { ...listOf(request, repository, sha, counts), required },
      origin: publicUrl ?? request.client.origin,
    })
    const { visitor } = request
    const chunks = renderChunks({ title: tab, tab, icon, visitor, head: LIVE }, content)
    return streamPage(request, reply, chunks, scheduler)
  }

  async function sendCandidates(
    request: FastifyRequest<CommitRoute>,
    reply: FastifyReply,
    repository: ListedRepository,
    { id, candidates, more }: Extract<Named, { kind: 'ambiguous' }>,
  ): Promise<FastifyReply> {
    const described = []
    for (const sha of candidates) {
      await scheduler.step(request)
      described.push({ sha, details: (await describe(request, repository, sha)).details })
    }
    const title = `${id} · ${repository.owner}/${repository.name}`
    const content = [candidatesView(repository, id, described, more)]
    return streamPage(
      request,
      reply.code(300),
      renderChunks({ title, visitor: request.visitor }, content),
      scheduler,
    )
  }

  /** Returns the counts of a commit's statuses. @throws ServiceError `commit_unknown`; RepositoryUnavailable */
  async function countsOf(repository: ListedRepository, sha: string): Promise<StatusCounts> {
    const counts = await store.statuses.counts(repository.id, sha)
    const isKnown = Object.values(counts).some((count) => count > 0) || (await commits.inGit(repository, sha))
    if (!isKnown) throw new ServiceError('commit_unknown', 'The commit does not exist in this repository.')
    return counts
  }

  /** Returns what git has of a commit. The statuses are shown even if its files cannot be opened. */
  async function describe(request: FastifyRequest, repository: ListedRepository, sha: string) {
    const client = gitClient(request)
    try {
      const details = await revisions.describe(repository, sha, client)
      const all = await refs.list(repository, client)
      const pointing = [...all.branches, ...all.tags].filter((ref) => ref.sha === sha)
      return { details, refs: pointing.map((ref) => ({ ...ref, query: refQuery(all, ref) })) }
    } catch (error) {
      if (!(error instanceof RepositoryUnavailable)) throw error
      app.logError(request, new ServiceError('unavailable', undefined, { cause: error }))
      return { details: null, refs: [] }
    }
  }

  function listOf(
    request: FastifyRequest<{ Querystring: FilterQuery }>,
    { id, permission }: ListedRepository,
    sha: string,
    counts: StatusCounts,
  ): Omit<StatusList, 'required'> {
    const commit = { repositoryId: id, sha }
    return {
      counts,
      permission,
      filter: readFilter(request.query),
      stalledBefore: nowInSeconds() - stalledAfter,
      withAges: true,
      async *read(states) {
        let after = ''
        for (;;) {
          const batch = await store.statuses.listBatchByState(commit, states, after, STATUSES)
          yield batch
          const last = batch.at(-1)
          if (batch.length < STATUSES || last === undefined) return
          after = last.context
          await scheduler.step(request)
        }
      },
    }
  }

  /** Returns which contexts the branch rules require. Reads nothing if there are no rules. */
  async function requiredOf(
    rules: readonly AppliedRule[],
    { id }: ListedRepository,
    sha: string,
  ): Promise<RequiredContexts> {
    if (rules.length === 0) return requiredContexts([], [])
    const reported = await store.statuses.list(id, sha)
    return requiredContexts(
      rules,
      reported.map(({ context }) => context),
    )
  }

  /** Returns a validator of all that the live region shows. Unlike the region, it is not rendered. */
  async function etagOf(
    list: Omit<StatusList, 'required'>,
    rules: readonly AppliedRule[],
    request: FastifyRequest,
  ): Promise<string> {
    const etag = createEtag()
    const { filter, counts, permission, stalledBefore } = list
    // Which contexts they require follows from the statuses.
    const required = rules.map(({ branchPattern, required }) => [branchPattern, required])
    etag.update(Buffer.from(JSON.stringify([filter, counts, permission, required])))
    for await (const part of list.read(schemas.State.enum)) {
      await scheduler.step(request)
      const stalled = part.map((status) => isStalled(status, stalledBefore))
      etag.update(Buffer.from(JSON.stringify([part, stalled])))
    }
    return etag.end()
  }
}

const LIVE = html`<script src="/assets/live.js" defer></script>`
