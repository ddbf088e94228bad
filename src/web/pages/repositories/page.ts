import type { FastifyInstance, FastifyRequest } from 'fastify'
import { isName, isOwnerName } from '../../../domain/names.ts'
import { ServiceError } from '../../../errors.ts'
import { GitTimeout, RepositoryUnavailable } from '../../../git/errors.ts'
import type { Commit } from '../../../git/history/log-reader.ts'
import { readDefaultBranch } from '../../../git/refs/head.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import { QueueFull } from '../../../util/fair-queue.ts'
import { gitClient } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { type BranchVerdict, verdictsOn } from '../../parts/verdicts.ts'
import { sessionOf } from '../../session/session-auth.ts'
import { type Problem, type RepositoryRow, repositoriesView } from './view.ts'

/** Repositories per page. */
const REPOSITORIES = 30
/** Milliseconds that the page waits for git. The rest is ready when the page is reloaded. */
const TIME_LIMIT = 3_000

type Head = { repository: ReadableRepository & { hasRules: boolean } } & (
  | { commit: Commit }
  | { problem: Problem }
)

/** Registers `/`: the repositories that the user may see, with the states of default branches. */
export async function repositoriesPage(app: FastifyInstance, options: PageContext): Promise<void> {
  const { store, pageQueue } = options

  app.get<{ Querystring: Query<'after'> }>('/', async (request, reply) => {
    const [owner = '', name = ''] = firstOf(request.query.after).split('/')
    const after = isOwnerName(owner) && isName(name) ? { owner, name } : undefined
    const { user } = sessionOf(request)
    const repositories = await store.listing.list(user?.id ?? null, REPOSITORIES + 1, after)
    const shown = repositories.slice(0, REPOSITORIES)
    const last = repositories.length > REPOSITORIES ? shown.at(-1) : undefined

    const late = new Promise<'slow'>((resolve) => setTimeout(resolve, TIME_LIMIT, 'slow').unref())
    const heads = await Promise.all(shown.map((repository) => readHead(request, repository, late)))

    return pageQueue.render(request, async () => {
      const rows = await readSummaries(heads)
      const failing = rows.filter((row) => 'commit' in row && row.summary.failed.length > 0)
      const live = {
        summary: `Checks failed in ${failing.length} of ${rows.length} repositories.`,
        pending: false,
      }
      return sendPage(
        reply,
        { title: 'Repositories', live },
        repositoriesView({ rows, last, isSignedIn: user !== null }),
      )
    })
  })

  async function readSummaries(heads: readonly Head[]): Promise<RepositoryRow[]> {
    const commits = heads.flatMap((head) =>
      'commit' in head ? [{ repositoryId: head.repository.id, sha: head.commit.sha }] : [],
    )
    const summaries = (await store.summaries.list(commits)).values()
    const rows: RepositoryRow[] = []
    for (const head of heads) {
      if ('problem' in head) {
        rows.push(head)
        continue
      }
      const { repository, commit } = head
      const summary = summaries.next().value ?? NO_STATUSES
      const verdict = repository.hasRules ? await readVerdict(repository, commit.sha) : undefined
      rows.push({ repository, commit, summary, verdict })
    }
    return rows
  }

  /** Returns the verdict for the default branch; undefined if it has no rules. */
  async function readVerdict(
    { id, path }: ReadableRepository,
    sha: string,
  ): Promise<BranchVerdict | undefined> {
    const defaultBranch = await readDefaultBranch(path)
    const reported = await store.summaries.listStates({ repositoryId: id, sha })
    return verdictsOn(sha, await store.rules.load(id), [], { defaultBranch }, reported)[0]
  }

  /** Reads the commit of HEAD. Stops waiting for git at `late`; git goes on. */
  async function readHead(
    request: FastifyRequest,
    repository: Head['repository'],
    late: Promise<'slow'>,
  ): Promise<Head> {
    const reading = options.heads.newest(repository, gitClient(request)).then(
      ([commit]) => commit ?? ('empty' as const),
      (error: unknown) => {
        if (error instanceof QueueFull || error instanceof GitTimeout) return 'slow' as const
        if (!(error instanceof RepositoryUnavailable)) throw error
        app.logError(request, new ServiceError('unavailable', undefined, { cause: error }))
        return 'unavailable' as const
      },
    )
    // Avoids an unhandled rejection if it fails later.
    reading.catch(() => {})
    const head = await Promise.race([reading, late])
    return typeof head === 'string' ? { repository, problem: head } : { repository, commit: head }
  }
}
