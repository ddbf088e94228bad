import { BRANCHES } from '../domain/ref-names.ts'
import type { CombinedState } from '../domain/states.ts'
import type { Tip } from '../git/history/branch-lists.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { Decide, Decision } from './decisions.ts'
import type { PageSources } from './kept-pages.ts'
import { findMatching, type TipQuery } from './matching-tips.ts'

/** Branches that are decided for one page. */
export const MAX_BRANCHES = 300

export interface BranchQuery extends TipQuery {
  /** Default: branches with any verdict, and those without one. */
  verdict?: CombinedState
  limit: number
}

export interface BranchPage {
  branches: (Omit<Decision, 'isPassedOver'> & Tip)[]
  /** The name after which the next page begins; null on the last one. */
  next: string | null
  /** Number of branches without a name in the contract. */
  unnamed: number
  /** Whether the repository has more branches than are listed. */
  truncated: boolean
}

/**
 * Lists branches by name with what is known about their newest commits: the same page as before while
 * nothing has changed. With `verdict`, it may be short or empty although there is a next one.
 *
 * @throws Unavailable; the signal's reason
 */
export async function listBranchPage(
  { lists, turns, decide, keepPage }: PageSources<BranchPage> & { decide: Decide },
  repository: ReadableRepository,
  { verdict, limit, ...query }: BranchQuery,
  client: QueueClient,
): Promise<BranchPage> {
  const { tips, unnamed, more: truncated } = await lists.list(repository, client)
  const count = verdict === undefined ? limit : MAX_BRANCHES
  const matching = await findMatching(turns, tips, query, count, client)

  let shown = 0
  const isShown = (decision: Decision) => verdict === undefined || decision.verdict === verdict
  const isLast = (decision: Decision) => {
    if (isShown(decision)) shown++
    return shown === limit
  }
  const candidates = matching.slice(0, count).map(({ sha, name }) => ({ sha, refs: [`${BRANCHES}${name}`] }))
  const decisions = await decide(repository.id, candidates, { require: [], isLast }, client)
  return keepPage([matching, ...decisions], `${verdict} ${limit}`, () => {
    const branches = decisions.flatMap((decision, index) => {
      const tip = matching[index]
      const { state, counts, verdict } = decision
      return tip && isShown(decision) ? [{ ...tip, state, counts, verdict }] : []
    })
    const last = matching[decisions.length - 1]
    const next = last && matching.length > decisions.length ? last.name : null
    return { branches, next, unnamed, truncated }
  })
}
