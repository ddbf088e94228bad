import { setImmediate } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { CombinedState } from '../../../domain/states.ts'
import type { CommitLog } from '../../../git/history/log.ts'
import type { RepositoryFiles } from '../../../git/opened-repository.ts'
import { readDefaultBranch, readHeadId } from '../../../git/refs/head.ts'
import type { QueueClient } from '../../../schedule/fair-queue.ts'
import type { ListedRepository } from '../../../store/access/repository-listing.ts'
import { NO_STATUSES, type StatusSummary } from '../../../store/statuses/status-summaries.ts'
import type { CommitKey } from '../../../store/statuses/statuses.ts'
import { ExpectedError, insteadOf } from '../../../util/expected-errors.ts'
import { chunksOf } from '../../../util/lists.ts'
import { entriesUpTo } from '../../../util/memory.ts'
import type { PageStore } from '../../routing/page-store.ts'
import { stateBeside, stateOfSummary } from '../../statuses/commit-row.ts'
import { headVerdict } from '../../statuses/verdicts.ts'

/** What of a repository decides about its place in a list. */
export type Condition = 'broken' | 'running' | 'passing' | 'empty' | 'other'

/** A repository that may be listed. */
export type Candidate = ListedRepository & {
  /** Whether the user may write to it. */
  isOwn: boolean
}

type RankingStore = Pick<PageStore, 'summaries' | 'repositories' | 'rules' | 'listing'>

/** Milliseconds for which a condition is remembered. Rows are sorted again by what they show. */
const MAX_AGE = 30_000
const REMEMBERED = 10_000
/** Repositories that are read in one turn, and of all of them, those that come first. */
const AT_ONCE = 50
const FIRST = 300
/** All are read for at most this part of the time. */
const PART = 1 / 100

/**
 * Sorts more repositories than a page shows by what the newest commits were a short time ago. To
 * read them for every page would cost more than the rest of the page.
 *
 * Which repositories of the server come first is found out beside the pages, so that nobody has to
 * page through hundreds of them to see a broken one.
 */
export class Ranking {
  readonly #conditions = new LRUCache<number, Condition>({ ...entriesUpTo(REMEMBERED), ttl: MAX_AGE })
  readonly #headLog: CommitLog
  readonly #store: RankingStore
  #first: readonly number[] = []
  #isRefreshing = false
  #nextRefresh = 0

  constructor(heads: CommitLog, store: RankingStore) {
    this.#headLog = heads
    this.#store = store
  }

  /**
   * The ids of the repositories that come first on the server: the broken ones, then those that were
   * pushed to lately. Empty until all have been read.
   */
  get first(): readonly number[] {
    return this.#first
  }

  /** Finds out anew which repositories come first, if that is due. @throws StoreUnavailable */
  async refreshFirst(): Promise<void> {
    if (this.#isRefreshing || performance.now() < this.#nextRefresh) return
    this.#isRefreshing = true
    const start = performance.now()
    try {
      await this.#rankAll()
    } finally {
      this.#isRefreshing = false
      // Also if it has failed: otherwise every page would begin to read all of them.
      const end = performance.now()
      this.#nextRefresh = end + Math.max(MAX_AGE, (end - start) / PART)
    }
  }

  async #rankAll(): Promise<void> {
    const broken: number[] = []
    for (const some of chunksOf(await this.#store.repositories.list(), AT_ONCE)) {
      await this.#read(some, async () => undefined)
      for (const { id } of some) if (this.#conditions.get(id) === 'broken') broken.push(id)
      await setImmediate()
    }
    const pushed = await this.#store.listing.pushedLately()
    const places = new Map(pushed.map((id, index) => [id, index]))
    const place = (id: number) => places.get(id) ?? pushed.length
    broken.sort((one, other) => place(one) - place(other) || other - one)
    this.#first = [...new Set([...broken, ...pushed])].slice(0, FIRST)
  }

  /** Reads conditions that are not remembered. git runs only where files do not name the commit. */
  async refresh(candidates: readonly Candidate[], client: QueueClient): Promise<void> {
    await this.#read(candidates, async (repository) => {
      const [commit] = await this.#headLog.newest(repository, client)
      return commit?.sha ?? null
    })
  }

  /** @param head returns the commit that files do not name; undefined if it is not known */
  async #read<Repository extends RepositoryFiles & { id: number }>(
    repositories: readonly Repository[],
    head: (repository: Repository) => Promise<string | null | undefined>,
  ): Promise<void> {
    const unknown = repositories.filter(({ id }) => !this.#conditions.has(id))
    const ids = await Promise.all(
      unknown.map(
        async (repository) =>
          (await readHeadId(repository.path)) ??
          // A row that is shown says why it has no commit.
          (await head(repository).catch(insteadOf(ExpectedError, undefined))),
      ),
    )
    const commits = unknown.flatMap(({ id: repositoryId, path }, index) => {
      const sha = ids[index]
      return sha ? [{ repositoryId, sha, path }] : []
    })
    const summaries = await this.#store.summaries.list(commits)
    const states = await Promise.all(
      commits.map((commit, index) => this.#stateOf(commit, summaries[index] ?? NO_STATUSES)),
    )
    const found = states.values()
    for (const [index, { id }] of unknown.entries()) {
      const sha = ids[index]
      if (sha === undefined) continue
      this.#conditions.set(id, sha ? conditionOfState(found.next().value ?? null) : 'empty')
    }
  }

  /** Returns the state that a row shows. */
  async #stateOf({ path, ...commit }: CommitKey & { path: string }, summary: StatusSummary) {
    if (stateOfSummary(summary) !== 'success') return stateOfSummary(summary)
    const { rules } = this.#store
    const hasRules = (await rules.load(commit.repositoryId)).length > 0
    const verdict = hasRules && (await headVerdict(this.#store, commit, await readDefaultBranch(path)))
    return stateBeside(verdict ? [verdict] : [], summary)
  }

  /** Returns the milliseconds until the condition of a candidate is read again. */
  remaining(candidates: readonly Candidate[]): number {
    return Math.min(...candidates.map(({ id }) => this.#conditions.getRemainingTTL(id)))
  }

  /** Returns how many candidates are in which condition, as far as it is known. */
  count(candidates: readonly Candidate[]): Partial<Record<Condition, number>> {
    return countConditions(candidates.map(({ id }) => this.#conditions.get(id) ?? 'other'))
  }

  /** Returns the candidates that are in a condition. */
  having(candidates: readonly Candidate[], condition: Condition): Candidate[] {
    return candidates.filter(({ id }) => this.#conditions.get(id) === condition)
  }

  /** Returns the candidates in the order of `placeOf`, and in their own where that is the same. */
  sort(candidates: readonly Candidate[]): Candidate[] {
    const place = ({ id, isOwn }: Candidate) => placeOf(isOwn, this.#conditions.get(id))
    return candidates.toSorted((one, other) => place(one) - place(other))
  }
}

/** Returns the condition of a repository by the state of its newest commit. */
export function conditionOfState(state: CombinedState | null): Condition {
  return state === null ? 'other' : CONDITIONS[state]
}

const CONDITIONS = { failure: 'broken', pending: 'running', success: 'passing' } as const

/** Returns how many there are of each condition. */
export function countConditions(conditions: readonly Condition[]): Partial<Record<Condition, number>> {
  const counts: Partial<Record<Condition, number>> = {}
  for (const condition of conditions) counts[condition] = (counts[condition] ?? 0) + 1
  return counts
}

/** Returns the place in a list: broken repositories first, then own ones, and empty ones last. */
export function placeOf(isOwn: boolean, condition: Condition = 'other'): number {
  if (condition === 'empty') return 4
  return (condition === 'broken' ? 0 : 2) + (isOwn ? 0 : 1)
}
