import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { BranchVerdict } from '../../../domain/branch-verdicts.ts'
import { isName, isOwnerName } from '../../../domain/names.ts'
import { ServiceError } from '../../../errors.ts'
import { GitTimeout, RepositoryUnavailable } from '../../../git/errors.ts'
import type { Commit } from '../../../git/history/log-reader.ts'
import { readDefaultBranch } from '../../../git/refs/head.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import { QueueFull } from '../../../util/fair-queue.ts'
import { authorship, objections, pill, type SummarizedCommit, subjectOf } from '../../parts/commit-row.ts'
import { gitClient } from '../../parts/find-repository.ts'
import { type Html, html } from '../../parts/html.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { verdictsOf } from '../../parts/verdicts.ts'
import type { Session } from '../../session/session-auth.ts'

/** Repositories per page. */
const REPOSITORIES = 30
/** Milliseconds that the page waits for git. What takes longer is ready when the page is reloaded. */
const TIME_LIMIT = 3_000

/** Why a row has no commit. */
type Problem = 'empty' | 'unavailable' | 'slow'
type Head = { repository: ReadableRepository & { hasRules: boolean } } & (
  | { commit: Commit }
  | { problem: Problem }
)
type RepositoryRow = { repository: ReadableRepository } & (SummarizedCommit | { problem: Problem })

/** Registers `/`: the repositories that the session may see, with the state of their default branches. */
export async function repositoriesPage(app: FastifyInstance, options: PageContext): Promise<void> {
  const { store, pageQueue } = options

  app.get<{ Querystring: Query<'after'> }>('/', async (request, reply) => {
    const [owner = '', name = ''] = firstOf(request.query.after).split('/')
    const after = isOwnerName(owner) && isName(name) ? { owner, name } : undefined
    const { session } = request
    const found = await store.listing.list(session.user?.id ?? null, REPOSITORIES + 1, after)
    const shown = found.slice(0, REPOSITORIES)
    const last = found.length > REPOSITORIES ? shown.at(-1) : undefined
    const late = new Promise<'slow'>((resolve) => setTimeout(resolve, TIME_LIMIT, 'slow').unref())
    const heads = await Promise.all(shown.map((repository) => readHead(request, repository, late)))
    return pageQueue.render(request, async () => {
      const rows = await readSummaries(heads)
      const failing = rows.filter((row) => 'commit' in row && row.summary.failed.length > 0)
      const live = {
        summary: `Checks failed in ${failing.length} of ${rows.length} repositories.`,
        pending: false,
      }
      return sendPage(reply, { title: 'Repositories', live }, repositoriesView(rows, session, last))
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

  /** Returns the verdict for the default branch or, if that has no rules, for the first branch with rules. */
  async function readVerdict(
    { id, path }: ReadableRepository,
    sha: string,
  ): Promise<BranchVerdict | undefined> {
    const defaultBranch = await readDefaultBranch(path)
    return verdictsOf(store, id, await store.rules.load(id), { defaultBranch }).first(sha, defaultBranch)
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
    const found = await Promise.race([reading, late])
    return typeof found === 'string' ? { repository, problem: found } : { repository, commit: found }
  }
}

/** Renders the page. @param last the last repository of this page, if there are more */
function repositoriesView(rows: RepositoryRow[], session: Session, last?: ReadableRepository): Html {
  const empty = session.user
    ? html`<p class="empty">You do not have access to any repositories. An administrator creates one with
        <code>repo create OWNER/NAME</code>.</p>`
    : html`<p class="empty">There are no public repositories. <a href="/login">Sign in</a> to see yours.</p>`
  return html`<h1>Repositories</h1>
${rows.length === 0 ? empty : html`<ul class="list">${rows.map(repositoryItem)}</ul>`}
${last ? html`<p><a href="/?after=${encodeURIComponent(`${last.owner}/${last.name}`)}">More repositories</a></p>` : ''}`
}

const PROBLEMS: Record<Problem, Html | string> = {
  empty: 'Nothing has been pushed yet.',
  unavailable: 'The files of this repository cannot be opened. The server’s log has the reason.',
  slow: 'Reading this repository takes long. Reload this page in a few seconds.',
}

function repositoryItem(row: RepositoryRow): Html {
  const { owner, name, visibility } = row.repository
  const found = 'commit' in row
  const badge = found
    ? pill(row)
    : html`<span class="badge unreported">${row.problem === 'slow' ? 'unknown' : row.problem}</span>`
  return html`<li class="commit" id="r-${row.repository.id}">
  ${badge}
  <span><a href="/${owner}/${name}"><span class="faint">${owner} /</span> <strong>${name}</strong></a>
    ${visibility === 'private' ? html`<span class="badge">private</span>` : ''}</span>
  ${
    found
      ? html`<span class="faint">${objections(row)}<a href="/${owner}/${name}/commits/${row.commit.sha}">${subjectOf(row.commit)}</a> · ${authorship(row.commit)}</span>`
      : html`<span class="faint">${PROBLEMS[row.problem]}</span>`
  }
</li>`
}
