import type { FastifyRequest } from 'fastify'
import { isFullId, isShortId } from '../../../domain/commit-id.ts'
import { isRepositoryPath } from '../../../domain/names.ts'
import { BRANCHES as BRANCH_REFS } from '../../../domain/ref-names.ts'
import { rulesOfRef } from '../../../domain/ref-rules.ts'
import { ServiceError } from '../../../errors.ts'
import { type History, MAX_STARTS } from '../../../git/history/log.ts'
import type { Ref, Refs } from '../../../git/refs/read-refs.ts'
import type { QueueClient } from '../../../schedule/fair-queue.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { NO_STATUSES, type StatusSummary } from '../../../store/statuses/status-summaries.ts'
import { ExpectedError, insteadOf, Unavailable } from '../../../util/expected-errors.ts'
import { createRepositoryFinder, gitClient, type RepositoryRoute } from '../../finding/find-repository.ts'
import { onlyRefWith, sendUnknownName } from '../../finding/unknown-name.ts'
import { goImport } from '../../go-get.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { type Broken, UNKNOWN } from '../../statuses/broken.ts'
import { stateOfSummary } from '../../statuses/commit-row.ts'
import { tabOf } from '../../statuses/state-summary.ts'
import { requiredContexts, tipVerdicts } from '../../statuses/verdicts.ts'
import { html } from '../../text/html.ts'
import { branchOf, commitPath, headOf, pathOf, refQuery } from '../../text/repository-paths.ts'
import { visibleText } from '../../text/text.ts'
import { RedBranches } from './red-branches.ts'
import { type LastPassedCommit, type RepositoryView, repositoryView } from './repository-view.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'find' | 'of' | 'ref' | 'after' | 'go-get'>
}

/** Branches whose state is shown. */
const BRANCHES = 30
const NO_NAMES: ReadonlySet<string> = new Set()
const EMPTY: History = { commits: [], after: null }

/**
 * Registers `/{owner}/{repo}`: the commits of a branch or tag (`ref`), limited to what the user may
 * see. `after` is `History.after` of the previous page, separated by commas. `/commits` of it leads to
 * what the field of its pages finds.
 */
export async function repositoryPage(pages: Pages, options: PageContext): Promise<void> {
  const { store, lookup, commitLog, pageQueue, openPages, revisions, breakages } = options
  const findRepository = createRepositoryFinder(pages, options)
  const redBranches = new RedBranches(store)

  pages.get<RepositoryRoute>('/:owner/:repo/', (request, reply) => {
    const { owner, repo } = request.params
    if (!isRepositoryPath(owner, repo)) throw new ServiceError('path_unknown')
    return reply.redirect(`/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}`, 303)
  })

  pages.get<Route>('/:owner/:repo/commits', async (request, reply) => {
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const text = firstOf(request.query.find).trim()
    const page = `${pathOf(repository)}${firstOf(request.query.of) === 'checks' ? '/checks' : ''}`
    if (text === '') return reply.redirect(page, 303)
    const commit = commitPath(repository, text.split('/').map(encodeURIComponent).join('/'))
    if (isFullId(text.toLowerCase(), repository.objectFormat)) return reply.redirect(commit, 303)
    const client = gitClient(request)
    const refs = await options.refs.list(repository, client)
    const ref =
      (await options.refs.find(repository, refs, text, client)) ??
      (isShortId(text, repository.objectFormat) ? null : onlyRefWith(refs, text))
    if (ref) return reply.redirect(page + refQuery(refs, ref), 303)
    // A path with such parts is another one, or none. No ref has them in its name.
    if (/(?:^|\/)\.{0,2}(?:\/|$)/.test(text)) return sendUnknownName(reply.code(404), repository, refs, text)
    return reply.redirect(commit, 303)
  })

  pages.getRemembered<Route>('/:owner/:repo', async (request, reply) => {
    const repository = await findRepository(request, reply)
    if (!repository) return reply
    const client = gitClient(request)
    const name = `${repository.owner}/${repository.name}`
    if (request.query['go-get'] === '1') {
      const origin = request.client.origin()
      const content = html`<p><a href="/${name}">${name}</a></p>`
      return sendPage(reply, { title: name, head: goImport(repository, origin) }, content)
    }
    const remember = await openPages.watch(request, [repository])
    const refs = await options.refs.list(repository, client)
    const refName = firstOf(request.query.ref)
    const ref = refName ? await options.refs.find(repository, refs, refName, client) : headOf(refs)
    if (refName && ref === null) return sendUnknownName(reply.code(404), repository, refs, refName)

    const after = await pageStart(repository, request.query.after)
    const from = after ? { after } : ref && { first: ref.sha }
    const history = from ? await commitLog.history(repository, from, client) : EMPTY
    const lastPassed = ref?.kind === 'branch' && !after ? await findLastPassed(repository, ref, client) : null
    const isCut = refs.branches.length > BRANCHES
    const red = isCut ? await redBranches.find(repository.id, refs) : null
    const branches = shownBranches(refs, ref, red?.names ?? NO_NAMES)
    const shas = [...branches, ...(ref ? [ref] : []), ...history.commits].map(({ sha }) => sha)

    const summaries = await pageQueue.render(request, () => summarize(repository, shas))
    const summaryOf = (sha: string) => summaries.get(sha) ?? NO_STATUSES
    const tip = ref && !after ? history.commits[0] : undefined
    const broken = ref && tip ? await findBroken(request, repository, ref, summaryOf(tip.sha)) : undefined
    const isComplete = lastPassed !== undefined && broken !== null && broken?.suspects !== UNKNOWN
    const maxAge = red ? red.until - performance.now() : undefined
    const keep = (etag: string) => remember?.(etag, openPages.filesOf(repository, refs, tip?.sha), maxAge)

    return pageQueue.render(request, async () => {
      const rules = await store.rules.load(repository.id)
      const reportedStates =
        tip && rules.length > 0
          ? await store.summaries.listStates({ repositoryId: repository.id, sha: tip.sha })
          : []
      const verdicts = tip ? tipVerdicts(options.refs, repository, refs, ref, rules, reportedStates) : []

      const content = repositoryView({
        repository,
        refs,
        ref,
        tip: tip && { commit: tip, summary: summaryOf(tip.sha) },
        broken: broken ?? undefined,
        ...orderBranches(branches, refs, red?.names ?? null, summaryOf),
        commits: history.commits.map((commit) => ({ commit, summary: summaryOf(commit.sha) })),
        older: history.after,
        isFirstPage: after === null,
        verdicts,
        lastPassed: lastPassed ?? null,
        rules,
        origin: request.client.origin(),
      })
      const title = refName && ref ? `${visibleText(ref.name)} · ${name}` : name
      const tab = tip && tabOf(title, summaryOf(tip.sha).counts, requiredContexts(verdicts).missing.size)
      return sendPage(reply, { title, ...tab, ...(isComplete && { keep }) }, content)
    })
  })

  /** Finds out who broke a branch; null if git cannot tell. Without this line, the page still says much. */
  async function findBroken(
    request: FastifyRequest,
    repository: ReadableRepository,
    ref: Ref,
    summary: StatusSummary,
  ): Promise<Broken | null | undefined> {
    const [isOpen] = await breakages.mayBeBroken([{ repositoryId: repository.id, ...summary }])
    if (!isOpen) return undefined
    const client = gitClient(request)
    const position = { branch: branchOf(ref), sha: ref.sha }
    const commits = await breakages
      .commitsToSearch(repository, position, summary, client)
      .catch(insteadOf(ExpectedError, null))
    if (commits === null) return null
    const breakage = await pageQueue.render(request, () =>
      breakages.findLongest(repository.id, commits, summary),
    )
    if (breakage === undefined) return undefined
    const suspects = breakages.suspects(repository, breakage, client)
    return { ...breakage, suspects: await suspects.catch(insteadOf(ExpectedError, UNKNOWN)) }
  }

  /**
   * Returns the last commit of a branch with rules that passed, unless it is the newest one, and its
   * date. null if none of many has passed; undefined if git cannot tell.
   */
  async function findLastPassed(
    repository: ReadableRepository,
    { name, sha }: Ref,
    client: QueueClient,
  ): Promise<LastPassedCommit | null | undefined> {
    const rules = await store.rules.load(repository.id)
    if (rulesOfRef(rules, `${BRANCH_REFS}${name}`).length === 0) return null
    // The branch or its rules may be gone by now. Without this line, the page still says much.
    const found = await options.branches
      .lastPassed(repository, { branch: name }, client)
      .catch(insteadOf(ServiceError, null))
      .catch(insteadOf(Unavailable, undefined))
    if (found === undefined) return undefined
    const passed = found?.commit
    if (!passed || passed.sha === sha) return null
    const details = await revisions.describe(repository, passed.sha, client)
    return { sha: passed.sha, date: details?.date ?? null }
  }

  /** Returns the commits that a page continues from; null if first. @throws `commit_unknown` */
  async function pageStart(
    repository: ReadableRepository,
    after: string | string[] | undefined,
  ): Promise<string[] | null> {
    const shas = firstOf(after).split(',').slice(0, MAX_STARTS)
    if (shas[0] === '') return null
    // Full ids only: git takes anything else for a revision.
    const isCommit = await Promise.all(shas.map((sha) => lookup.has(repository, sha)))
    if (isCommit.every(Boolean)) return shas

    throw new ServiceError(
      'commit_unknown',
      'The commit that this page continues from does not exist in this repository.',
    )
  }

  async function summarize(
    { id }: ReadableRepository,
    shas: readonly string[],
  ): Promise<Map<string, StatusSummary>> {
    const commits = [...new Set(shas)].map((sha) => ({ repositoryId: id, sha }))
    const summaries = await store.summaries.list(commits)
    return new Map(commits.map(({ sha }, index) => [sha, summaries[index] ?? NO_STATUSES]))
  }
}

/** Returns the default branch, the branch that is shown, those that failed, and the newest other ones. */
function shownBranches(
  { branches, defaultBranch }: Refs,
  shown: Ref | null,
  red: ReadonlySet<string>,
): Ref[] {
  const isFirst = ({ name }: Ref) => name === defaultBranch
  const isShown = (ref: Ref) => shown?.kind === 'branch' && ref.name === shown.name && !isFirst(ref)
  const first = [...branches.filter(isFirst), ...branches.filter(isShown)]
  const others = branches.filter((ref) => !first.includes(ref))
  const ordered = [
    ...others.filter(({ name }) => red.has(name)),
    ...others.filter(({ name }) => !red.has(name)),
  ]
  return [...first, ...ordered.slice(0, BRANCHES - first.length)]
}

/**
 * Orders the branches that are shown: the default branch, those that failed, then the others.
 *
 * @param red names of all branches that failed; null if these are all branches
 */
function orderBranches(
  branches: readonly Ref[],
  { defaultBranch }: Refs,
  red: ReadonlySet<string> | null,
  summaryOf: (sha: string) => StatusSummary,
): Pick<RepositoryView, 'branches' | 'redBranches'> {
  const summarized = branches.map((branch) => ({ ...branch, summary: summaryOf(branch.sha) }))
  const isRed = ({ summary }: (typeof summarized)[number]) => stateOfSummary(summary) === 'failure'
  const place = (branch: (typeof summarized)[number]) =>
    branch.name === defaultBranch ? 0 : isRed(branch) ? 1 : 2
  return {
    branches: summarized.toSorted((one, other) => place(one) - place(other)),
    redBranches: red?.size ?? summarized.filter(isRed).length,
  }
}
