import type { FastifyInstance } from 'fastify'
import type { CommitLog } from '../../../git/history/log.ts'
import type { RefLists } from '../../../git/history/refs.ts'
import { MATRIX_COMMITS } from '../../../store/statuses/check-matrix.ts'
import type { Store } from '../../../store/store.ts'
import { nowInSeconds } from '../../../store/time.ts'
import type { SendErrorPage } from '../../parts/error-page.ts'
import { unknownNameView } from '../../parts/find-commit.ts'
import { createRepositoryFinder, gitClient, type RepositoryRoute } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageQueue } from '../../parts/page-queue.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { headOf } from '../../parts/ref-chooser.ts'
import { tabOf } from '../../parts/state-summary.ts'
import { type FilterQuery, readFilter } from '../../parts/status-filter.ts'
import { visibleText } from '../../parts/text.ts'
import { readVerdicts, targetsOf, VERDICTS } from '../../parts/verdicts.ts'
import { checksView } from './view.ts'

interface ChecksPageOptions {
  store: Store
  commitLog: CommitLog
  refs: RefLists
  pageQueue: PageQueue
  sendErrorPage: SendErrorPage
  stalledAfter: number
}

interface Route extends RepositoryRoute {
  Querystring: Query<'ref'> & FilterQuery
}

/** Registers `/{owner}/{repo}/checks`: the checks of the newest commits of a branch or tag (`ref`). */
export async function checksPage(app: FastifyInstance, options: ChecksPageOptions): Promise<void> {
  const { store, commitLog, pageQueue } = options
  const findRepository = createRepositoryFinder(app, options)

  app.get<Route>('/:owner/:repo/checks', async (request, reply) => {
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const client = gitClient(request)
    const refs = await options.refs.list(repository, client)
    const asked = firstOf(request.query.ref)
    const found = asked === '' ? null : await options.refs.find(repository, refs, asked, client)
    if (asked !== '' && !found) {
      const title = `${visibleText(asked)} · ${repository.owner}/${repository.name}`
      const content = unknownNameView(repository, refs, asked)
      return sendPage(reply.code(404), { title, session: request.session }, content)
    }
    const ref = found ?? headOf(refs)
    const from = ref && { first: ref.sha }
    const history = from ? await commitLog.history(repository, from, client) : { commits: [] }
    const commits = history.commits.slice(0, MATRIX_COMMITS)
    const shas = commits.map(({ sha }) => sha)
    const of = ref?.name ? ` of ${visibleText(ref.name)}` : ''
    const title = `Checks${of} · ${repository.owner}/${repository.name}`
    return pageQueue.render(request, async () => {
      const columns = await store.matrix.columns(repository.id, shas)
      const [sha] = shas
      const tip = sha && { repositoryId: repository.id, sha }
      const [summary] = tip ? await store.summaries.list([tip]) : []
      const rules = await store.rules.load(repository.id)
      const targets = targetsOf(rules, ref?.kind === 'branch' ? ref.name : null, refs)
      const asked = sha ? targets.slice(0, VERDICTS).map((branch) => ({ sha, branch })) : []
      const read = await readVerdicts(store, repository.id, rules, asked)
      const verdicts = asked.flatMap(({ sha, branch }) => read(sha, branch) ?? [])
      const content = checksView({
        repository,
        refs,
        ref,
        commits,
        columns,
        filter: readFilter(request.query),
        stalledBefore: nowInSeconds() - options.stalledAfter,
        verdicts,
        moreVerdicts: targets.length - verdicts.length,
      })
      const tab = summary && tabOf(title, summary, verdicts)
      return sendPage(reply, { title, session: request.session, ...tab }, content)
    })
  })
}
