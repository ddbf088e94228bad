import type { FastifyReply, FastifyRequest } from 'fastify'
import { shortId } from '../../../domain/commit-id.ts'
import { allows } from '../../../domain/permissions.ts'
import { Refusal } from '../../../domain/refusal.ts'
import { COMBINED, combinedCounts, countStates } from '../../../domain/states.ts'
import { ServiceError } from '../../../errors.ts'
import { RepositoryUnavailable } from '../../../git/errors.ts'
import type { Ref } from '../../../git/refs/read-refs.ts'
import { commitExists } from '../../../repositories/commit-exists.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { ReportedStatus } from '../../../store/statuses/statuses.ts'
import { nowInSeconds } from '../../../store/time.ts'
import { createRepositoryFinder, gitClient } from '../../finding/find-repository.ts'
import { sendUnknownName } from '../../finding/unknown-name.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { sessionOf } from '../../session/session-auth.ts'
import { reporterOf } from '../../statuses/check-row.ts'
import { tabOf } from '../../statuses/state-summary.ts'
import { type FilterQuery, readFilter } from '../../statuses/status-filter.ts'
import type { StatusList } from '../../statuses/status-sections.ts'
import { requiredContexts, verdictsOn } from '../../statuses/verdicts.ts'
import type { Html } from '../../text/html.ts'
import { commitPath } from '../../text/repository-paths.ts'
import { visibleText } from '../../text/text.ts'
import { type BranchHistory, readHistories } from './branch-histories.ts'
import { commitView, runAgainForm, sinceView } from './commit-view.ts'
import { findCommitRefs } from './refs-of-commit.ts'
import { resolveCommit } from './resolve-commit.ts'

interface Route {
  Params: { owner: string; repo: string; '*': string }
  Querystring: FilterQuery
}

/** A commit of a repository. */
interface Subject {
  repository: ReadableRepository
  sha: string
}

/** Failing contexts whose history is shown. */
const SINCE = 10

/** Registers `/{owner}/{repo}/commits/{sha}`, limited to what the session may see. */
export async function commitPage(pages: Pages, options: PageContext): Promise<void> {
  const { store, lookup, refs, revisions, breakages, pageQueue, stalledAfter } = options
  const findRepository = createRepositoryFinder(pages, options)

  /** Finds a commit that is named by its full id. Leads to its page from other names. */
  async function find(request: FastifyRequest<Route>, reply: FastifyReply): Promise<Subject | null> {
    const name = request.params['*']
    // An empty segment is an unknown path, as everywhere.
    if (name.split('/').includes('')) throw new ServiceError('path_unknown')
    const repository = await findRepository(request, reply)
    if (!repository) return null

    const client = gitClient(request)
    const sha = await resolveCommit(options, repository, name, client)
    if (sha === null) {
      sendUnknownName(reply.code(404), repository, await refs.list(repository, client), name)
      return null
    }
    const leadTo = (commit: string) => {
      const query = request.url.includes('?') ? request.url.slice(request.url.indexOf('?')) : ''
      reply.redirect(`${commitPath(repository, commit)}${query}`, 303)
      return null
    }
    if (sha !== name.toLowerCase()) return leadTo(sha)
    if (!(await commitExists(store.statuses, lookup, repository, sha))) {
      const tagged = await lookup.commitOfTag(repository, sha)
      if (tagged) return leadTo(tagged)
      throw new ServiceError('commit_unknown', 'The commit does not exist in this repository.')
    }
    return { repository, sha }
  }

  pages.form('/:owner/:repo/commits/*', {
    find,
    initial: () => ({}),
    refused: (problem) => ({ problem }),
    submit: async ({ request, form, subject: { repository, sha }, transact }) => {
      const client = gitClient(request)
      const refs = await ifAvailable(request, () => findCommitRefs(options, repository, sha, client))
      if (refs && !isNewest(sha, refs.branches))
        throw new Refusal(
          'it is the newest commit of no branch, and workers run no others. Nothing was changed',
        )
      const status = { sha, id: form.get('status') ?? '' }
      const context = await transact((change) => store.statuses.requestRun(change, repository, status))
      return {
        path: commitPath(repository, sha),
        text: `Another run of ${visibleText(context)} was asked for.`,
      }
    },
    send,
  })

  async function send(
    request: FastifyRequest<Route>,
    reply: FastifyReply,
    { repository, sha }: Subject,
    { problem }: { problem?: string },
  ): Promise<FastifyReply> {
    const client = gitClient(request)
    const commitRefs = await ifAvailable(request, () => findCommitRefs(options, repository, sha, client))
    const details = await ifAvailable(request, () => revisions.describe(repository, sha, client))
    const rules = await store.rules.load(repository.id)
    const { failure } = combinedCounts(await store.summaries.countByState(repository.id, sha))
    const histories =
      commitRefs && failure > 0
        ? await ifAvailable(request, () => readHistories(options, repository, sha, commitRefs, client))
        : null

    return pageQueue.render(request, async () => {
      const statuses = await store.statuses.listWithReporters({ repositoryId: repository.id, sha })
      const verdicts = commitRefs
        ? verdictsOn(sha, rules, [...commitRefs.branches, ...commitRefs.tags], commitRefs.all, statuses)
        : []
      const list: StatusList = {
        verdicts,
        required: requiredContexts(verdicts),
        statuses,
        counts: countStates(statuses),
        since: await findSince(repository, statuses, histories ?? []),
        ...reportersOf(statuses, repository.permission),
        filter: readFilter(request.query),
        stalledBefore: nowInSeconds() - stalledAfter,
        canRunAgain: allows(repository.permission, 'write') && isNewest(sha, commitRefs?.branches ?? []),
      }
      const title = `${repository.name}@${shortId(sha)}`
      const tab = tabOf(title, list.counts, list.required.missing.size)
      const origin = request.client.origin()
      const content = commitView({ repository, sha, details, commitRefs, statuses: list, origin, problem })
      const rest = list.canRunAgain ? runAgainForm(sessionOf(request)) : undefined
      return sendPage(reply, { title, ...tab, rest }, content)
    })
  }

  /** Returns what git says; null if it cannot read the repository: its statuses are still shown. */
  async function ifAvailable<T>(request: FastifyRequest, read: () => Promise<T>): Promise<T | null> {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof RepositoryUnavailable)) throw error
      pages.logError(request, new ServiceError('unavailable', undefined, { cause: error }))
      return null
    }
  }

  /** Finds out since when the first failing contexts fail, in each of the histories; the same commit is named once. */
  async function findSince(
    repository: ReadableRepository,
    statuses: readonly ReportedStatus[],
    histories: readonly BranchHistory[],
  ): Promise<Map<string, Html[]>> {
    const failedStatuses = statuses.filter(({ state }) => COMBINED[state] === 'failure').slice(0, SINCE)
    const since = new Map(failedStatuses.map(({ context }): [string, Html[]] => [context, []]))
    if (failedStatuses.length === 0) return since

    const told = new Map<string, string>()
    for (const { branch, shas } of histories)
      for (const history of await breakages.find(repository.id, shas, [...since.keys()])) {
        const { context, breakage } = history
        if (breakage !== null && told.get(context) === breakage.since) continue
        since.get(context)?.push(sinceView(repository, branch, history))
        if (breakage !== null) told.set(context, breakage.since)
      }
    return since
  }
}

/** Returns whether a commit is the newest one of a branch. */
function isNewest(sha: string, branches: readonly Ref[]): boolean {
  return branches.some(({ sha: tip }) => tip === sha)
}

/** Returns who has reported statuses: all of them, or each. */
function reportersOf(
  statuses: readonly ReportedStatus[],
  permission: ReadableRepository['permission'],
): Pick<StatusList, 'reporter' | 'reporterOf'> {
  const [first] = statuses
  const isSame = statuses.every(
    ({ reporter_user: user, reporter_token: token }) =>
      user === first?.reporter_user && token === first.reporter_token,
  )
  const reporter = (status: ReportedStatus) => reporterOf(status, permission)
  return { reporter: first && isSame ? reporter(first) : null, reporterOf: reporter }
}
