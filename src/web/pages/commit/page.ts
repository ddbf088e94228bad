import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { BranchRule } from '../../../domain/branch-rules.ts'
import { branchVerdict, ruledBranches } from '../../../domain/branch-verdicts.ts'
import { fullCommitId } from '../../../domain/commit-id.ts'
import { failingSince } from '../../../domain/failing-since.ts'
import { requiredContexts } from '../../../domain/required-contexts.ts'
import { COMBINED, combinedCounts } from '../../../domain/states.ts'
import { ServiceError } from '../../../errors.ts'
import { commitExists } from '../../../git/objects/commit-lookup.ts'
import { RepositoryUnavailable } from '../../../git/repository.ts'
import { etagOf, matchesEtag } from '../../../http/etag.ts'
import type { ListedRepository } from '../../../store/access/repository-listing.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import type { ReportedStatus } from '../../../store/statuses/statuses.ts'
import { nowInSeconds } from '../../../store/time.ts'
import { memoizeByObject } from '../../../util/memoize.ts'
import { sendUnknownName } from '../../parts/find-commit.ts'
import { createRepositoryFinder, gitClient } from '../../parts/find-repository.ts'
import { type Html, html } from '../../parts/html.ts'
import { asOf, LIVE, sendHtml, sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { refQuery } from '../../parts/ref-chooser.ts'
import { type FilterQuery, readFilter } from '../../parts/status-filter.ts'
import { isStalled, type StatusList } from '../../parts/status-sections.ts'
import { firstVerdicts, type Verdicts } from '../../parts/verdicts.ts'
import { type BranchHistory, findBase, findPlaces, type Places, readHistories } from './places.ts'
import { resolveCommit } from './resolve-commit.ts'
import { candidatesView, commitView, liveRegion, sinceView, summaryOf } from './view.ts'

/** Names of branches that are compared with rules, and failing contexts whose history is shown. */
const NAMES = 20
const SINCE = 10

interface Route<Name extends string> {
  Params: Record<'owner' | 'repo' | Name, string>
  Querystring: FilterQuery
}

/** Registers `/{owner}/{repo}/commits/{sha}` and the part of it that it polls, limited to what the session may see. */
export async function commitPages(app: FastifyInstance, options: PageContext): Promise<void> {
  const { store, refs, revisions, pageQueue, stalledAfter } = options
  const findRepository = createRepositoryFinder(app, options)

  app.get<Route<'*'>>('/:owner/:repo/commits/*', async (request, reply) => {
    const name = request.params['*']
    // An empty segment is an unknown path, as everywhere.
    if (name.split('/').includes('')) throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const client = gitClient(request)
    const found = await resolveCommit(options, repository, name, client)
    if (found === null)
      return sendUnknownName(reply.code(422), repository, await refs.list(repository, client), name)
    if (found.kind === 'commit') {
      const { sha } = found
      const place = await find(request, repository, sha)
      const details = await ifAvailable(request, () => revisions.describe(repository, sha, client))
      const histories = await historiesOf(request, repository, sha, place)
      return pageQueue.render(request, async () => {
        const list = await listOf(request, repository, sha)
        const statuses = await decide(repository, list, { ...place, histories })
        const view = { repository, sha, places: place.places, statuses }
        const { tab, icon } = summaryOf(view)
        const content = commitView({ ...view, details, origin: request.client.origin() })
        return sendPage(reply, { title: tab, tab, icon, head: LIVE }, html`${content}${asOf()}`)
      })
    }
    if (found.kind === 'ambiguous') {
      const described = []
      for (const sha of found.candidates) {
        const details = await ifAvailable(request, () => revisions.describe(repository, sha, client))
        described.push({ sha, details })
      }
      const title = `${found.id} · ${repository.owner}/${repository.name}`
      return sendPage(reply.code(300), { title }, candidatesView(repository, found, described))
    }
    const query = request.url.includes('?') ? request.url.slice(request.url.indexOf('?')) : ''
    return reply.redirect(`/${repository.owner}/${repository.name}/commits/${found.sha}${query}`, 303)
  })

  app.get<Route<'sha'>>('/:owner/:repo/live/:sha', { config: { polled: true } }, async (request, reply) => {
    if (request.params.sha === '') throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const sha = fullCommitId(repository.objectFormat, request.params.sha)
    const place = await find(request, repository, sha)
    const isUnchanged = await pageQueue.render(request, async () => {
      const etag = validatorOf(await listOf(request, repository, sha), place)
      reply.header('cache-control', 'private, no-cache').header('etag', etag)
      return matchesEtag(request.headers['if-none-match'], etag)
    })
    if (isUnchanged) return reply.code(304).send()
    const histories = await historiesOf(request, repository, sha, place)
    if (histories === null) reply.removeHeader('etag')
    return pageQueue.render(request, async () => {
      const list = await listOf(request, repository, sha)
      const statuses = { ...(await decide(repository, list, { ...place, histories })), withAges: false }
      return sendHtml(reply, liveRegion({ repository, sha, places: place.places, statuses }))
    })
  })

  /** Returns what git says; null if it cannot read the repository. The statuses are shown nonetheless. */
  async function ifAvailable<T>(request: FastifyRequest, read: () => Promise<T>): Promise<T | null> {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof RepositoryUnavailable)) throw error
      app.logError(request, new ServiceError('unavailable', undefined, { cause: error }))
      return null
    }
  }

  /** Finds where a commit is. @throws ServiceError `commit_unknown`; RepositoryUnavailable */
  async function find(request: FastifyRequest, repository: ListedRepository, sha: string): Promise<Place> {
    if (!(await commitExists(store.statuses, options.lookup, repository, sha)))
      throw new ServiceError('commit_unknown', 'The commit does not exist in this repository.')
    const client = gitClient(request)
    const places = await ifAvailable(request, () => findPlaces(options, repository, sha, client))
    return { places, rules: await store.rules.load(repository.id) }
  }

  /** Returns the histories that the page needs, none unless checks have failed; null if they cannot be read. */
  async function historiesOf(
    request: FastifyRequest,
    repository: ListedRepository,
    sha: string,
    { rules, places }: Place,
  ): Promise<Found['histories']> {
    const { failure } = combinedCounts(await store.summaries.countByState(repository.id, sha))
    if (failure === 0 || places === null) return []
    const read = () => readHistories(options, repository, sha, rules, places, gitClient(request))
    return ifAvailable(request, read)
  }

  /** Applies the rules of the repository to the statuses of a commit. */
  async function decide(
    repository: ListedRepository,
    list: Undecided,
    { rules, places, histories }: Found,
  ): Promise<StatusList> {
    const { statuses } = list
    const names = places?.branches.slice(0, NAMES).map(({ name }) => name) ?? []
    const branches = ruledBranches(rules, [...names, places?.all.defaultBranch])
    const contexts = statuses.map(({ context }) => context)
    const failed = statuses.filter(({ state }) => COMBINED[state] === 'failure').slice(0, SINCE)
    const since = new Map(failed.map(({ context }): [string, Html[]] => [context, []]))
    for (const { branch, shas } of failed.length > 0 ? (histories ?? []) : [])
      for (const [context, cells] of await store.matrix.listHistories(repository.id, shas, [...since.keys()]))
        since.get(context)?.push(sinceView(repository, branch, shas, failingSince(cells)))
    return {
      ...list,
      required: await requiredContexts(rules, contexts),
      ...(await firstVerdicts(branches, (branch) => branchVerdict(rules, branch, statuses))),
      since,
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
type Undecided = Omit<StatusList, 'required' | 'since' | keyof Verdicts>

/** Where a commit is, null where git cannot read the repository, and the rules there. */
interface Place {
  rules: readonly BranchRule[]
  places: Places | null
}

/** What the statuses of a commit are shown with. */
interface Found extends Place {
  /** None unless checks have failed; null where git cannot read the repository. */
  histories: readonly BranchHistory[] | null
}

/**
 * Returns a validator of all that the live region shows, except statuses of other commits. Unlike the region, it is not
 * rendered.
 */
function validatorOf(list: Undecided, { rules, places }: Place): string {
  const { filter, permission, stalledBefore, statuses } = list
  const stalled = statuses.filter((status) => isStalled(status, stalledBefore)).map(({ id }) => id)
  // Which contexts they require follows from the statuses.
  const required = rules.map(({ branchPattern, required }) => [branchPattern, required])
  // Refs that are listed or compared with rules, and the number of the others.
  const git = places && [
    ...[places.branches, places.tags].map((refs) => [
      refs.length,
      refs.slice(0, NAMES).map((ref) => [ref, refQuery(places.all, ref)]),
    ]),
    places.all.defaultBranch,
    findBase(rules, places)?.sha,
  ]
  const parts = [filter, permission, required, digestOf(statuses), stalled, git]
  return etagOf(JSON.stringify(parts))
}

/** The same statuses are listed until one of them is reported. */
const digestOf = memoizeByObject((statuses: readonly ReportedStatus[]) => etagOf(JSON.stringify(statuses)))
