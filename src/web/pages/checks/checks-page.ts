import type { FastifyRequest } from 'fastify'
import type { Ref } from '../../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { MATRIX_COMMITS } from '../../../store/statuses/check-matrix.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import { nowInSeconds } from '../../../store/time.ts'
import { ExpectedError, insteadOf } from '../../../util/expected-errors.ts'
import { createRepositoryFinder, gitClient, type RepositoryRoute } from '../../finding/find-repository.ts'
import { sendUnknownName } from '../../finding/unknown-name.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { UNKNOWN } from '../../statuses/broken.ts'
import { tabOf } from '../../statuses/state-summary.ts'
import { type FilteredCheck, type FilterQuery, matches, readFilter } from '../../statuses/status-filter.ts'
import { isStalled, stallsIn } from '../../statuses/status-sections.ts'
import { requiredContexts, tipVerdicts } from '../../statuses/verdicts.ts'
import { branchOf, headOf } from '../../text/repository-paths.ts'
import { visibleText } from '../../text/text.ts'
import { type ChecksView, checksView } from './checks-view.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'ref'> & FilterQuery
}

type BrokenChecks = Pick<ChecksView, 'broken' | 'moreBroken'>
const NONE_BROKEN: BrokenChecks = { broken: [], moreBroken: 0 }
/** Failing contexts that are described above the matrix. */
const DESCRIBED = 5
/** Contexts that are shown at once. The filter finds the others. */
const SHOWN = 200

/** Registers `/{owner}/{repo}/checks`: the checks of the newest commits of a ref (`ref`). */
export async function checksPage(pages: Pages, options: PageContext): Promise<void> {
  const { store, commitLog, pageQueue, openPages, breakages } = options
  const findRepository = createRepositoryFinder(pages, options)

  pages.getRemembered<Route>('/:owner/:repo/checks', async (request, reply) => {
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const client = gitClient(request)
    const remember = await openPages.watch(request, [repository])
    const refs = await options.refs.list(repository, client)
    const refName = firstOf(request.query.ref)
    const ref = refName ? await options.refs.find(repository, refs, refName, client) : headOf(refs)
    if (refName && ref === null) return sendUnknownName(reply.code(404), repository, refs, refName)

    const history = ref && (await commitLog.history(repository, { first: ref.sha }, client))
    const commits = history?.commits.slice(0, MATRIX_COMMITS) ?? []
    const shas = commits.map(({ sha }) => sha)
    const of = ref?.name ? ` of ${visibleText(ref.name)}` : ''
    const title = `Checks${of} · ${repository.owner}/${repository.name}`

    // Whoever waits for git keeps no matrix in memory.
    const checks = await pageQueue.render(request, async () => {
      const columns = await store.matrix.listColumns(repository.id, shas)
      return columns.map(({ context, failing, cells: [cell] }) => {
        return { context, failing, state: cell?.state ?? null }
      })
    })
    const failing = checks.flatMap((check) => (check.failing ? [check.context] : []))
    const broken =
      ref && failing.length > 0 ? await findBroken(request, repository, ref, failing) : NONE_BROKEN

    return pageQueue.render(request, async () => {
      const stalledBefore = nowInSeconds() - options.stalledAfter
      const [sha] = shas
      const tip = sha === undefined ? undefined : { repositoryId: repository.id, sha }
      const newest = tip ? await store.summaries.listStates(tip) : []
      const stalledStatuses = newest.filter((status) => isStalled(status, stalledBefore))
      const stalled = new Set(stalledStatuses.map(({ context }) => context))
      const filtered = checks.map(({ context, state }): FilteredCheck => {
        return { context, state, stalled: stalled.has(context) }
      })

      const filter = readFilter(request.query)
      const matching = filtered.filter((check) => matches(check, filter)).map(({ context }) => context)
      const contexts = matching.slice(0, SHOWN)

      const histories = await store.matrix.listHistories(repository.id, shas, contexts)
      const [summary = NO_STATUSES] = tip ? await store.summaries.list([tip]) : []
      const rules = await store.rules.load(repository.id)
      const verdicts = tipVerdicts(options.refs, repository, refs, ref, rules, newest)
      const content = checksView({
        repository,
        refs,
        ref,
        commits,
        ...(broken ?? NONE_BROKEN),
        summary,
        checks: filtered,
        filter,
        shown: new Map(contexts.map((context) => [context, histories.get(context) ?? []])),
        more: matching.length - contexts.length,
        verdicts,
      })
      const tab = tip && tabOf(title, summary.counts, requiredContexts(verdicts).missing.size)
      const isComplete = broken?.broken.every(({ suspects }) => suspects !== UNKNOWN)
      const keep = (etag: string) =>
        remember?.(etag, openPages.filesOf(repository, refs, sha), 1_000 * stallsIn(newest, stalledBefore))
      return sendPage(reply, { title, ...tab, ...(isComplete && { keep }) }, content)
    })
  })

  /**
   * Finds out who broke the first of the checks that fail; null if git cannot tell. Without this, the page
   * says the rest.
   */
  async function findBroken(
    request: FastifyRequest,
    repository: ReadableRepository,
    ref: Ref,
    contexts: readonly string[],
  ): Promise<BrokenChecks | null> {
    const client = gitClient(request)
    const position = { branch: branchOf(ref), sha: ref.sha }
    const commits = await breakages
      .commitsOf(repository, position, client)
      .catch(insteadOf(ExpectedError, null))
    if (commits === null) return null
    const histories = await pageQueue.render(request, () => breakages.find(repository.id, commits, contexts))
    const found = histories.flatMap(({ breakage }) => breakage ?? [])
    const described = await Promise.all(
      found.slice(0, DESCRIBED).map(async (breakage) => {
        const suspects = breakages.suspects(repository, breakage, client)
        return { ...breakage, suspects: await suspects.catch(insteadOf(ExpectedError, UNKNOWN)) }
      }),
    )
    // A check may have failed on what was merged, and never on the branch.
    const others = histories.length - found.length
    return { broken: described, moreBroken: contexts.length - described.length - others }
  }
}
