import { MATRIX_COMMITS } from '../../../store/statuses/check-matrix.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import { nowInSeconds } from '../../../store/time.ts'
import { sendUnknownName } from '../../parts/find-commit.ts'
import { createRepositoryFinder, gitClient, type RepositoryRoute } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import type { Pages } from '../../parts/pages.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { headOf } from '../../parts/ref-chooser.ts'
import { visibleText } from '../../parts/text.ts'
import { tabOf } from '../../statuses/state-summary.ts'
import { type FilteredCheck, type FilterQuery, matches, readFilter } from '../../statuses/status-filter.ts'
import { isStalled } from '../../statuses/status-sections.ts'
import { requiredContexts, tipVerdicts } from '../../statuses/verdicts.ts'
import { checksView } from './checks-view.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'ref'> & FilterQuery
}

/** Contexts that are shown at once. The filter finds the others. */
const SHOWN = 200

/** Registers `/{owner}/{repo}/checks`: the checks of the newest commits of a ref (`ref`). */
export async function checksPage(pages: Pages, options: PageContext): Promise<void> {
  const { store, commitLog, pageQueue } = options
  const findRepository = createRepositoryFinder(pages, options)

  pages.get<Route>('/:owner/:repo/checks', async (request, reply) => {
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const client = gitClient(request)
    const refs = await options.refs.list(repository, client)
    const refName = firstOf(request.query.ref)
    const ref = refName ? await options.refs.find(repository, refs, refName, client) : headOf(refs)
    if (refName && ref === null) return sendUnknownName(reply.code(404), repository, refs, refName)

    const history = ref && (await commitLog.history(repository, { first: ref.sha }, client))
    const commits = history?.commits.slice(0, MATRIX_COMMITS) ?? []
    const shas = commits.map(({ sha }) => sha)
    const of = ref?.name ? ` of ${visibleText(ref.name)}` : ''
    const title = `Checks${of} · ${repository.owner}/${repository.name}`

    return pageQueue.render(request, async () => {
      const columns = await store.matrix.listColumns(repository.id, shas)
      const stalledBefore = nowInSeconds() - options.stalledAfter
      const [sha] = shas
      const tip = sha === undefined ? undefined : { repositoryId: repository.id, sha }
      const newest = tip ? await store.summaries.listStates(tip) : []
      const stalledStatuses = newest.filter((status) => isStalled(status, stalledBefore))
      const stalled = new Set(stalledStatuses.map(({ context }) => context))
      const checks = columns.map(({ context, cells: [cell] }): FilteredCheck => {
        return { context, state: cell?.state ?? null, stalled: stalled.has(context) }
      })

      const filter = readFilter(request.query)
      const matching = checks.filter((check) => matches(check, filter)).map(({ context }) => context)
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
        columns,
        summary,
        checks,
        filter,
        shown: new Map(contexts.map((context) => [context, histories.get(context) ?? []])),
        more: matching.length - contexts.length,
        verdicts,
      })
      const tab = tip && tabOf(title, summary.counts, requiredContexts(verdicts).missing.size)
      return sendPage(reply, { title, ...tab }, content)
    })
  })
}
