import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isName, isOwnerName, isReserved, nameKey } from '../../../domain/names.ts'
import { ServiceError } from '../../../errors.ts'
import { GitTimeout, RepositoryUnavailable } from '../../../git/errors.ts'
import type { Commit } from '../../../git/history/log-reader.ts'
import { readDefaultBranch } from '../../../git/refs/head.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import type { ListedRepository } from '../../../store/access/repository-listing.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import { QueueFull } from '../../../util/fair-queue.ts'
import { stateOfSummary } from '../../parts/commit-row.ts'
import { gitClient } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { type BranchVerdict, verdictsOn } from '../../parts/verdicts.ts'
import { sessionOf, signInPath } from '../../session/session-auth.ts'
import { type Candidate, type Condition, placeOf, Ranking } from './ranking.ts'
import { type Problem, type RepositoriesView, type RepositoryRow, repositoriesView } from './view.ts'

interface Route {
  Querystring: Query<'after' | 'q'>
}

/** Repositories on the start page, and that a search finds. */
const SHOWN = 30
/** Repositories on a page of all or of an owner, and of which the start page shows the first ones. */
const LISTED = 200
/** Milliseconds that the page waits for git. The rest is ready when the page is reloaded. */
const TIME_LIMIT = 3_000

type Head = { repository: Candidate } & ({ commit: Commit } | { problem: Problem })
/** What a page lists: everything of the view that does not depend on git. */
type List = Omit<RepositoriesView, 'rows' | 'isSignedIn' | 'canCreate'> & {
  repositories: readonly Candidate[]
  /** Whether rows are in the order of `placeOf`. */
  isRanked: boolean
}

/** Registers `/` and `/{owner}`: the repositories that the user may see, with their states. */
export async function repositoriesPage(app: FastifyInstance, options: PageContext): Promise<void> {
  const { store, pageQueue } = options
  const ranking = new Ranking(options.heads, store.summaries)

  app.get<Route>('/', async (request, reply) => {
    const late = timeLimit()
    const q = firstOf(request.query.q).trim()
    const { after } = request.query
    const list = q ? search(request, q) : after === undefined ? first(request, late) : named(request)
    return send(request, reply, await list, late)
  })

  app.get<Route & { Params: { owner: string } }>('/:owner', async (request, reply) => {
    const { owner } = request.params
    // A fixed path is not an owner, and may have another method.
    if (isReserved(owner)) return reply.callNotFound()
    const list = isOwnerName(owner) ? await named(request, owner) : undefined
    if (list && list.repositories.length > 0) return send(request, reply, list, timeLimit())
    if (sessionOf(request).user) throw new ServiceError('repository_unknown')
    return reply.redirect(signInPath(request.url), 303)
  })

  /** Lists what begins with a text. */
  async function search(request: FastifyRequest, q: string): Promise<List> {
    const repositories = await store.listing.search(userOf(request), q, SHOWN)
    return { repositories: repositories.map(foreign), isRanked: false, q }
  }

  /** Lists the first repositories in the order of `placeOf`, of as many as a page lists by name. */
  async function first(request: FastifyRequest, late: Promise<'slow'>): Promise<List> {
    const userId = userOf(request)
    const own = userId === null ? [] : await store.listing.writable(userId, LISTED)
    const isOwn = new Set(own.map(({ id }) => id))
    const others = await store.listing.list(userId, LISTED)
    const candidates = [
      ...own.map((repository) => ({ ...repository, isOwn: true })).sort(byName),
      ...others.filter(({ id }) => !isOwn.has(id)).map(foreign),
    ].slice(0, LISTED)
    if (candidates.length <= SHOWN) return { repositories: candidates, isRanked: true }
    await Promise.race([ranking.refresh(candidates, gitClient(request)), late])
    const next = { path: '/?after=', text: 'All repositories' }
    return { repositories: ranking.sort(candidates).slice(0, SHOWN), isRanked: true, next }
  }

  /** Lists repositories by name, of an owner or of all owners. */
  async function named(request: FastifyRequest<Route>, owner?: string): Promise<List> {
    const [afterOwner = '', name = ''] = firstOf(request.query.after).split('/')
    const after = isOwnerName(afterOwner) && isName(name) ? { owner: afterOwner, name } : undefined
    const found = await store.listing.list(userOf(request), LISTED + 1, { after, owner })
    const repositories = found.slice(0, LISTED).map(foreign)
    const last = found.length > LISTED ? repositories.at(-1) : undefined
    const path = last && `/${owner ?? ''}?after=${encodeURIComponent(`${last.owner}/${last.name}`)}`
    return {
      repositories,
      isRanked: owner !== undefined && after === undefined,
      ...(owner !== undefined && { owner: repositories[0]?.owner ?? owner }),
      ...(path && { next: { path, text: 'More repositories' } }),
    }
  }

  async function send(
    request: FastifyRequest,
    reply: FastifyReply,
    { repositories, isRanked, ...list }: List,
    late: Promise<'slow'>,
  ): Promise<FastifyReply> {
    const heads = await Promise.all(repositories.map((repository) => readHead(request, repository, late)))
    return pageQueue.render(request, async () => {
      const rows = await readSummaries(heads)
      const isSignedIn = userOf(request) !== null
      const failing = rows.filter((row) => conditionOf(row) === 'broken')
      const live = {
        summary: `Checks failed in ${failing.length} of ${rows.length} repositories.`,
        pending: false,
      }
      const place = (row: RepositoryRow & Head) => placeOf(row.repository.isOwn, conditionOf(row))
      const sorted = isRanked ? rows.toSorted((one, other) => place(one) - place(other)) : rows
      return sendPage(
        reply,
        { title: list.owner === undefined ? 'Repositories' : `Repositories of ${list.owner}`, live },
        repositoriesView({
          ...list,
          rows: sorted,
          isSignedIn,
          canCreate: isSignedIn && options.repositoryCreation && list.owner === undefined,
        }),
      )
    })
  }
  async function readSummaries(heads: readonly Head[]): Promise<(RepositoryRow & Head)[]> {
    const commits = heads.flatMap((head) =>
      'commit' in head ? [{ repositoryId: head.repository.id, sha: head.commit.sha }] : [],
    )
    const summaries = (await store.summaries.list(commits)).values()
    const rows: (RepositoryRow & Head)[] = []
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
    repository: Candidate,
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

function timeLimit(): Promise<'slow'> {
  return new Promise((resolve) => setTimeout(resolve, TIME_LIMIT, 'slow').unref())
}

function userOf(request: FastifyRequest): number | null {
  return sessionOf(request).user?.id ?? null
}

function foreign(repository: ListedRepository): Candidate {
  return { ...repository, isOwn: false }
}

function byName(one: ReadableRepository, other: ReadableRepository): number {
  const key = ({ owner, name }: ReadableRepository) => nameKey(`${owner}/${name}`)
  return key(one) < key(other) ? -1 : 1
}

function conditionOf(row: RepositoryRow): Condition {
  if ('problem' in row) return row.problem === 'empty' ? 'empty' : row.problem === 'slow' ? 'other' : 'broken'
  return stateOfSummary(row.summary) === 'failure' ? 'broken' : 'other'
}
