import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type BranchVerdict, branchVerdict, ruledBranches } from '../../../domain/branch-verdicts.ts'
import { commitExists, fullCommitId } from '../../../domain/commits.ts'
import { requiredContexts } from '../../../domain/required-contexts.ts'
import { ServiceError } from '../../../errors.ts'
import type { RefLists, Refs } from '../../../git/history/refs.ts'
import type { Revisions } from '../../../git/history/revision.ts'
import type { CommitLookup } from '../../../git/objects/commit-lookup.ts'
import { RepositoryUnavailable } from '../../../git/repository.ts'
import { etagOf, matchesEtag } from '../../../http/etag.ts'
import type { ListedRepository } from '../../../store/repository-listing.ts'
import type { AppliedRule } from '../../../store/rules.ts'
import { NO_STATUSES } from '../../../store/status-summaries.ts'
import type { Store } from '../../../store/store.ts'
import { nowInSeconds } from '../../../store/time.ts'
import type { SendErrorPage } from '../../parts/error-page.ts'
import { gitClient, repositoryFinder } from '../../parts/find-repository.ts'
import { html } from '../../parts/html.ts'
import { asOf, LIVE, sendHtml, sendPage } from '../../parts/layout.ts'
import type { PageQueue } from '../../parts/page-queue.ts'
import { refQuery } from '../../parts/ref-chooser.ts'
import { type FilterQuery, readFilter } from '../../parts/status-filter.ts'
import { isStalled, type StatusList } from '../../parts/status-sections.ts'
import { VERDICTS } from '../../parts/verdicts.ts'
import { type Named, resolveCommit } from './resolve-commit.ts'
import { type CommitView, candidatesView, commitView, liveRegion, summaryOf, tabTitle } from './view.ts'

interface CommitPagesOptions {
  store: Store
  lookup: CommitLookup
  refs: RefLists
  revisions: Revisions
  pageQueue: PageQueue
  sendErrorPage: SendErrorPage
  publicUrl: string | null
  stalledAfter: number
}

interface CommitRoute {
  Params: { owner: string; repo: string; '*': string }
  Querystring: FilterQuery
}

interface LiveRoute {
  Params: { owner: string; repo: string; sha: string }
  Querystring: FilterQuery & { branch?: string | string[] }
}

/** Registers `/{owner}/{repo}/commits/{sha}` and the part of it that it polls, limited to what the visitor may see. */
export async function commitPages(app: FastifyInstance, options: CommitPagesOptions): Promise<void> {
  const { store, refs, revisions, pageQueue, publicUrl, stalledAfter } = options
  const findRepository = repositoryFinder(app, options)

  app.get<CommitRoute>('/:owner/:repo/commits/*', async (request, reply) => {
    const name = request.params['*']
    // An empty segment is an unknown path, as everywhere.
    if (name.split('/').includes('')) throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const client = gitClient(request)
    const found = await resolveCommit({ refs, revisions, statuses: store.statuses }, repository, name, client)
    if (found.kind === 'commit') {
      const { sha } = found
      await checkCommit(repository, sha)
      const described = await describe(request, repository, sha)
      return pageQueue.render(request, () => sendCommit(request, reply, repository, { sha, ...described }))
    }
    if (found.kind === 'ambiguous') return sendCandidates(request, reply, repository, found)
    const query = request.url.includes('?') ? request.url.slice(request.url.indexOf('?')) : ''
    return reply.redirect(`/${repository.owner}/${repository.name}/commits/${found.sha}${query}`, 303)
  })

  app.get<LiveRoute>('/:owner/:repo/live/:sha', { config: { polled: true } }, async (request, reply) => {
    if (request.params.sha === '') throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const sha = fullCommitId(repository.objectFormat, request.params.sha)
    await checkCommit(repository, sha)
    return pageQueue.render(request, async () => {
      const rules = await store.rules.load(repository.id)
      const list = { ...(await listOf(request, repository, sha)), withAges: false }
      const branches = ruledBranches(rules, [request.query.branch].flat().slice(0, VERDICTS))
      const etag = validatorOf(list, rules, branches)
      reply.header('cache-control', 'private, no-cache').header('etag', etag)
      if (matchesEtag(request.headers['if-none-match'], etag)) return reply.code(304).send()
      return sendHtml(reply, liveRegion(repository, sha, await decide(rules, branches, list)))
    })
  })

  async function sendCommit(
    request: FastifyRequest<CommitRoute>,
    reply: FastifyReply,
    repository: ListedRepository,
    { defaultBranch, ...commit }: Pick<CommitView, 'sha' | 'details' | 'refs'> & Pick<Refs, 'defaultBranch'>,
  ): Promise<FastifyReply> {
    const { sha } = commit
    const rules = await store.rules.load(repository.id)
    const list = await listOf(request, repository, sha)
    const tips = commit.refs.filter(({ kind }) => kind === 'branch').map(({ name }) => name)
    const statuses = await decide(rules, ruledBranches(rules, [...tips, defaultBranch]), list)
    const { short, icon } = summaryOf(statuses)
    const tab = tabTitle(repository.name, sha, short)
    const content = commitView({
      repository,
      ...commit,
      statuses,
      origin: publicUrl ?? request.client.origin,
    })
    const { visitor } = request
    return sendPage(reply, { title: tab, tab, icon, visitor, head: LIVE }, html`${content}${asOf()}`)
  }

  async function sendCandidates(
    request: FastifyRequest<CommitRoute>,
    reply: FastifyReply,
    repository: ListedRepository,
    { id, candidates, more }: Extract<Named, { kind: 'ambiguous' }>,
  ): Promise<FastifyReply> {
    const described = []
    for (const sha of candidates)
      described.push({ sha, details: (await describe(request, repository, sha)).details })
    const title = `${id} · ${repository.owner}/${repository.name}`
    const content = candidatesView(repository, id, described, more)
    return sendPage(reply.code(300), { title, visitor: request.visitor }, content)
  }

  /** Checks that git has a commit or that it has statuses. @throws ServiceError `commit_unknown`; RepositoryUnavailable */
  async function checkCommit(repository: ListedRepository, sha: string): Promise<void> {
    if (!(await commitExists(store.statuses, options.lookup, repository, sha)))
      throw new ServiceError('commit_unknown', 'The commit does not exist in this repository.')
  }

  /** Returns what git has of a commit. The statuses are shown even if its files cannot be opened. */
  async function describe(request: FastifyRequest, repository: ListedRepository, sha: string) {
    const client = gitClient(request)
    try {
      const details = await revisions.describe(repository, sha, client)
      const all = await refs.list(repository, client)
      const pointing = [...all.branches, ...all.tags].filter((ref) => ref.sha === sha)
      const linked = pointing.map((ref) => ({ ...ref, query: refQuery(all, ref) }))
      return { details, refs: linked, defaultBranch: all.defaultBranch }
    } catch (error) {
      if (!(error instanceof RepositoryUnavailable)) throw error
      app.logError(request, new ServiceError('unavailable', undefined, { cause: error }))
      return { details: null, refs: [], defaultBranch: null }
    }
  }

  /** Returns the statuses of a commit. */
  async function listOf(
    request: FastifyRequest<{ Querystring: FilterQuery }>,
    repository: ListedRepository,
    sha: string,
  ): Promise<Undecided> {
    const { id: repositoryId, permission } = repository
    const statuses = await store.statuses.listWithReporters({ repositoryId, sha })
    const counts = { ...NO_STATUSES.counts }
    for (const { state } of statuses) counts[state]++
    return {
      statuses,
      counts,
      permission,
      filter: readFilter(request.query),
      stalledBefore: nowInSeconds() - stalledAfter,
      withAges: true,
    }
  }
}

/** Statuses to which the rules have not been applied. */
type Undecided = Omit<StatusList, 'required' | 'verdicts' | 'moreVerdicts'>

/** Applies the rules of the repository. @param branches those with rules, the most important first */
async function decide(
  rules: readonly AppliedRule[],
  branches: readonly string[],
  list: Undecided,
): Promise<StatusList> {
  const { statuses } = list
  const contexts = statuses.map(({ context }) => context)
  const verdicts: BranchVerdict[] = []
  for (const branch of branches.slice(0, VERDICTS))
    verdicts.push(await branchVerdict(rules, branch, statuses))
  return {
    ...list,
    required: await requiredContexts(rules, contexts),
    verdicts,
    moreVerdicts: branches.length - verdicts.length,
  }
}

/** Returns a validator of all that the live region shows. Unlike the region, it is not rendered. */
function validatorOf(list: Undecided, rules: readonly AppliedRule[], branches: readonly string[]): string {
  const { filter, permission, stalledBefore, statuses } = list
  const stalled = statuses.map((status) => isStalled(status, stalledBefore))
  // Which contexts they require follows from the statuses.
  const required = rules.map(({ branchPattern, required }) => [branchPattern, required])
  return etagOf(JSON.stringify([filter, permission, required, branches, statuses, stalled]))
}
