import type { Tip } from '../git/history/branch-lists.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { Awaited } from '../store/statuses/awaited.ts'
import type { Store } from '../store/store.ts'
import { memoizeByObject } from '../util/memoize.ts'
import type { PageSources } from './kept-pages.ts'
import { findMatching, type TipQuery } from './matching-tips.ts'

/** Branches that are looked at for one page. */
const MAX_BRANCHES = 300

export interface AwaitingQuery extends TipQuery {
  context: string
  limit: number
}

export interface AwaitingPage {
  branches: (Tip & Pick<Awaited, 'state'>)[]
  /** The name after which the next page begins; null on the last one. */
  next: string | null
  /** Number of branches without a name in the contract. */
  unnamed: number
  /** Whether the repository has more branches than are listed. */
  truncated: boolean
}

const shasOf = memoizeByObject((tips: readonly Tip[]) =>
  JSON.stringify(tips.slice(0, MAX_BRANCHES).map(({ sha }) => sha)),
)

/**
 * Lists branches by name whose newest commit has no result of a context: the same page as before while
 * nothing has changed. It may be short or empty although there is a next one.
 *
 * @throws Unavailable; the signal's reason
 */
export async function listAwaitingPage(
  { lists, turns, awaited, keepPage }: PageSources<AwaitingPage> & Pick<Store, 'awaited'>,
  repository: ReadableRepository,
  { context, limit, ...query }: AwaitingQuery,
  client: QueueClient,
): Promise<AwaitingPage> {
  const { tips, unnamed, more: truncated } = await lists.list(repository, client)
  const matching = await findMatching(turns, tips, query, MAX_BRANCHES, client)
  const rows = await awaited({ repositoryId: repository.id, context, shas: shasOf(matching) })
  return keepPage([matching, rows], `${limit}`, () => {
    const shown = rows.slice(0, limit)
    const branches = shown.flatMap(({ position, state }) => {
      const tip = matching[position]
      return tip ? [{ ...tip, state }] : []
    })
    // A full page may end before the last branch that was looked at.
    const last = shown.length === limit ? (shown.at(-1)?.position ?? 0) : MAX_BRANCHES - 1
    const next = matching.length > last + 1 ? (matching[last]?.name ?? null) : null
    return { branches, next, unnamed, truncated }
  })
}
