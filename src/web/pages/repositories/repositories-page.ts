import type { FastifyReply, FastifyRequest } from 'fastify'
import { isName, isOwnerName, isReserved, nameKey } from '../../../domain/names.ts'
import { allows } from '../../../domain/permissions.ts'
import { ServiceError } from '../../../errors.ts'
import { asServiceError } from '../../../replies/error-replies.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { ListedRepository } from '../../../store/access/repository-listing.ts'
import type { OwnerView } from '../../../store/owners/groups.ts'
import { gitClient } from '../../finding/find-repository.ts'
import { problemOf } from '../../forms/form.ts'
import { invitation, MAY, readPermission } from '../../forms/permission-forms.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, formOf, type Query } from '../../routing/query.ts'
import { sessionOf, signInPath, userOf } from '../../session/session-auth.ts'
import type { Html } from '../../text/html.ts'
import { membersView, ownerFormPath } from './members.ts'
import { type Candidate, type Condition, countConditions, placeOf, Ranking } from './ranking.ts'
import { type RepositoriesView, type RepositoryRow, repositoriesView } from './repositories-view.ts'
import { conditionOf, createRowReader, rankOf, type SummarizedRow, timeLimit } from './repository-rows.ts'
import { STATES, stateCounts, tabOfStates } from './repository-states.ts'

interface Route {
  Querystring: Query<'after' | 'q' | 'state'>
}

interface OwnerRoute extends Route {
  Params: { owner: string }
}

/** Repositories on the start page, and that a search finds. */
const SHOWN = 30
/**
 * Repositories on a page of all or of an owner, and of which the start page shows the first ones.
 */
const LISTED = 200
/** What a page lists: everything of the view that does not depend on git. */
type List = Omit<RepositoriesView, 'rows' | 'isSignedIn' | 'states'> & {
  repositories: readonly Candidate[]
  /** How many repositories are in which condition; undefined: as the rows are. */
  counts?: Partial<Record<Condition, number>>
  /** Whether rows are in the order of `placeOf`. */
  isRanked: boolean
  /** Milliseconds for which the conditions are remembered by which they were chosen of many. */
  rankedFor?: number
  /** What follows the list. */
  rest?: Html
}

/** Registers `/` and `/{owner}`: the repositories that the user may see, with their states. */
export async function repositoriesPage(pages: Pages, options: PageContext): Promise<void> {
  const { store, pageQueue, openPages, findUser } = options
  const rowReader = createRowReader(options, pages)
  const ranking = new Ranking(options.headLog, store)

  pages.getRemembered<Route>('/', async (request, reply) => {
    const late = timeLimit()
    const q = firstOf(request.query.q).trim()
    const { after } = request.query
    const wanted = wantedState(request)
    const list = q
      ? search(request, q)
      : after === undefined
        ? first(request, reply, late, wanted)
        : named(request)
    return send(request, reply, await list, late)
  })

  pages.getRemembered<OwnerRoute>('/:owner', async (request, reply) => {
    const { owner } = request.params
    // A fixed path is not an owner, and may have another method.
    if (isReserved(owner)) {
      reply.callNotFound()
      return reply
    }
    const list = await ofOwner(request, owner)
    if (list) return send(request, reply, list, timeLimit())
    if (sessionOf(request).user) throw new ServiceError('repository_unknown')
    return reply.redirect(signInPath(request.url), 303)
  })

  const form = {
    signIn: '/',
    find: findAdministered,

    async send(
      request: FastifyRequest<OwnerRoute>,
      reply: FastifyReply,
      { name }: OwnerView,
      error: string,
    ): Promise<FastifyReply> {
      const list = await ofOwner(request, name, formOf(request), error)
      if (!list) throw new ServiceError('repository_unknown')
      return send(request, reply, list, timeLimit())
    },

    refused: (problem: string) => problem,
  }

  pages.form(ownerFormPath(':owner', 'members'), {
    ...form,
    async submit({ request, form, subject: { name: owner }, transact }) {
      const { id } = userOf(request)
      const { user, permission, expected } = await readPermission(form, findUser, id)
      await transact((change) => store.members.set(change, owner, user.id, permission, expected))
      const isMember = (await store.groups.find(owner, id))?.permission
      return {
        path: isMember ? `/${owner}` : '/',
        text:
          permission === null
            ? `${user.name} is no member of ${owner} now.`
            : `${user.name} ${MAY[permission]} all repositories of ${owner} now.`,
      }
    },
  })

  pages.form(ownerFormPath(':owner', 'names'), {
    ...form,
    async submit({ form, subject: { name: owner }, transact }) {
      const name = form.get('name') ?? ''
      const release = () => transact((change) => store.reservedNames.release(change, { owner, name }))
      // Another admin may have released it, which is the desired result.
      const problem = await problemOf(release)
      const text = problem ? 'The name is not reserved.' : `${owner}/${name} is not reserved any more.`
      return { path: `/${owner}`, text }
    },
  })

  /** Returns the owner of a form for its admins. */
  async function findAdministered(request: FastifyRequest<OwnerRoute>): Promise<OwnerView> {
    const owner = await store.groups.find(request.params.owner, userOf(request).id)
    if (owner && allows(owner.permission, 'admin')) return owner
    const isShown = await ofOwner(request, request.params.owner)
    throw new ServiceError(isShown ? 'not_admin' : 'repository_unknown')
  }

  /** Lists what contains a text. */
  async function search(request: FastifyRequest, q: string): Promise<List> {
    const repositories = await store.listing.search(viewerOf(request), q, SHOWN)
    return { repositories: repositories.map(foreign), isRanked: false, q, canCreate: mayCreate(request) }
  }

  /** Lists the first repositories in the order of `placeOf`, of as many as a page lists. */
  async function first(
    request: FastifyRequest,
    reply: FastifyReply,
    late: Promise<'slow'>,
    wanted: Condition | undefined,
  ): Promise<List> {
    const userId = viewerOf(request)
    const others = await store.listing.list(userId, LISTED)
    // Somebody who may see fewer repositories sees all of them.
    const isPart = others.length === LISTED
    const known = isPart ? await store.listing.of(userId, ranking.first) : []
    const own = isPart && userId !== null ? await store.listing.writable(userId, LISTED) : []
    // No page waits for it.
    const refresh = () =>
      ranking.refreshFirst().catch((error: unknown) => pages.logError(request, asServiceError(error)))
    if (isPart) reply.raw.once('finish', refresh)
    const repositories = new Map([...known, ...own.sort(byName), ...others].map((one) => [one.id, one]))
    const candidates = [...repositories.values()]
      .slice(0, LISTED)
      .map((repository) => ({ ...repository, isOwn: allows(repository.permission, 'write') }))
    const canCreate = mayCreate(request)
    if (candidates.length <= SHOWN) return { repositories: candidates, isRanked: true, canCreate }
    await Promise.race([ranking.refresh(candidates, gitClient(request)), late])
    const next = { path: '/?after=', text: 'All repositories' }
    const counts = ranking.count(candidates)
    const listed = wanted ? ranking.having(candidates, wanted) : ranking.sort(candidates).slice(0, SHOWN)
    const rankedFor = ranking.remaining(candidates)
    return { repositories: listed, counts, isRanked: true, rankedFor, canCreate, next }
  }

  /** Lists repositories by name, of an owner or of all owners. */
  async function named(request: FastifyRequest<Route>, owner?: string): Promise<List> {
    const [afterOwner = '', name = ''] = firstOf(request.query.after).split('/')
    const after = isOwnerName(afterOwner) && isName(name) ? { owner: afterOwner, name } : undefined
    const listedRepositories = await store.listing.list(viewerOf(request), LISTED + 1, { after, owner })
    const repositories = listedRepositories.slice(0, LISTED).map(foreign)
    const last = listedRepositories.length > LISTED ? repositories.at(-1) : undefined
    const path = last && `/${owner ?? ''}?after=${encodeURIComponent(`${last.owner}/${last.name}`)}`
    return {
      repositories,
      isRanked: owner !== undefined && after === undefined,
      canCreate: owner === undefined && mayCreate(request),
      ...(owner !== undefined && { owner: repositories[0]?.owner ?? owner }),
      ...(path && { next: { path, text: 'More repositories' } }),
    }
  }

  /**
   * Lists the repositories of an owner, and its members for members. Returns undefined for who may
   * see none of its repositories and is no member.
   */
  async function ofOwner(
    request: FastifyRequest<OwnerRoute>,
    name: string,
    form = new URLSearchParams(),
    error?: string,
  ): Promise<List | undefined> {
    if (!isOwnerName(name)) return undefined
    const userId = viewerOf(request)
    const list = await named(request, name)
    const owner = userId === null ? null : await store.groups.find(name, userId)
    if (!owner?.permission) return list.repositories.length > 0 ? list : undefined
    const isAdmin = allows(owner.permission, 'admin')
    const rest = membersView({
      session: sessionOf(request),
      owner,
      members: owner.isGroup ? await store.members.list(name) : [],
      reserved: isAdmin ? await store.reservedNames.list(name, userOf(request).id) : [],
      form,
      error,
      invitation: invitation(
        `${request.client.origin()}${signInPath(`/${owner.name}`)}`,
        options.oidc !== null,
      ),
    })
    return { ...list, owner: owner.name, canCreate: isAdmin && mayCreate(request), rest }
  }

  function mayCreate(request: FastifyRequest): boolean {
    return options.repositoryCreation && viewerOf(request) !== null
  }

  async function send(
    request: FastifyRequest,
    reply: FastifyReply,
    { repositories, counts, isRanked, rankedFor, rest, ...list }: List,
    late: Promise<'slow'>,
  ): Promise<FastifyReply> {
    const remember = await openPages.watch(request, repositories)
    const heads = await Promise.all(
      repositories.map((repository) => rowReader.readHead(request, repository, late)),
    )
    const summarized = await pageQueue.render(request, () => rowReader.readSummaries(heads))
    const { broken, isComplete } = await rowReader.readBroken(request, summarized, late)
    const files = isComplete ? rowReader.filesOf(heads) : null
    const keep = files ? (etag: string) => remember?.(etag, files, rankedFor) : undefined
    const rows = summarized.map((row) => ({ ...row, broken: broken.get(row) }))
    return pageQueue.render(request, async () => {
      const isSignedIn = viewerOf(request) !== null
      const states = stateCounts(counts ?? countConditions(rows.map(conditionOf)))
      const place = (row: SummarizedRow) => placeOf(row.repository.isOwn, rankOf(row))
      const sorted = isRanked
        ? rows.toSorted((one, other) => place(one) - place(other) || timeOf(other) - timeOf(one))
        : rows
      const title = list.owner === undefined ? 'Repositories' : `Repositories of ${list.owner}`
      const wanted = wantedState(request)
      const shown = wanted ? sorted.filter((row) => conditionOf(row) === wanted) : sorted
      const content = repositoriesView({ ...list, rows: shown, states, wanted, isSignedIn })
      return sendPage(reply, { title, ...tabOfStates(title, states), rest, keep }, content)
    })
  }
}

/** Returns the condition by which a list is filtered. */
function wantedState(request: FastifyRequest): Condition | undefined {
  // A URL may repeat a parameter.
  const { state } = request.query as Route['Querystring']
  return STATES.find(({ word }) => word === firstOf(state))?.condition
}

function viewerOf(request: FastifyRequest): number | null {
  return sessionOf(request).user?.id ?? null
}

/** Returns when the newest commit of a row was made, in milliseconds since the epoch. */
function timeOf(row: RepositoryRow): number {
  return 'commit' in row ? Date.parse(row.commit.date ?? '') || 0 : 0
}

function foreign(repository: ListedRepository): Candidate {
  return { ...repository, isOwn: false }
}

function byName(one: ReadableRepository, other: ReadableRepository): number {
  const key = ({ owner, name }: ReadableRepository) => nameKey(`${owner}/${name}`)
  return key(one) < key(other) ? -1 : 1
}
