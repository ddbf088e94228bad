import { LRUCache } from 'lru-cache'
import { ExpectedError, insteadOf } from '../../../errors.ts'
import type { GitClient } from '../../../git/history/cached-reads.ts'
import type { CommitLog } from '../../../git/history/log.ts'
import { readHeadId } from '../../../git/refs/head.ts'
import type { ListedRepository } from '../../../store/access/repository-listing.ts'
import { NO_STATUSES, type StatusSummaries } from '../../../store/statuses/status-summaries.ts'
import { stateOfSummary } from '../../statuses/commit-row.ts'

/** What of a repository decides about its place in a list. */
export type Condition = 'broken' | 'empty' | 'other'

/** A repository that may be listed. */
export type Candidate = ListedRepository & {
  /** Whether the user may write to it. */
  isOwn: boolean
}

/** Milliseconds for which a condition is remembered. Rows are sorted again by what they show. */
const MAX_AGE = 30_000
const MAX_REPOSITORIES = 10_000

/**
 * Sorts more repositories than a page shows by what the newest commits were a short time ago. To
 * read them for every page would cost more than the rest of the page.
 */
export class Ranking {
  readonly #conditions = new LRUCache<number, Condition>({ max: MAX_REPOSITORIES, ttl: MAX_AGE })
  readonly #headLog: CommitLog
  readonly #summaries: StatusSummaries

  constructor(heads: CommitLog, summaries: StatusSummaries) {
    this.#headLog = heads
    this.#summaries = summaries
  }

  /** Reads conditions that are not remembered. git runs only where files do not name the commit. */
  async refresh(candidates: readonly Candidate[], client: GitClient): Promise<void> {
    const unknown = candidates.filter(({ id }) => !this.#conditions.has(id))
    const ids = await Promise.all(
      unknown.map(async (repository) => {
        const head = async () => (await this.#headLog.newest(repository, client))[0]?.sha ?? null
        // A row that is shown says why it has no commit.
        return (
          (await readHeadId(repository.path)) ?? (await head().catch(insteadOf(ExpectedError, undefined)))
        )
      }),
    )
    const commits = unknown.flatMap(({ id: repositoryId }, index) => {
      const sha = ids[index]
      return sha ? [{ repositoryId, sha }] : []
    })
    const summaries = (await this.#summaries.list(commits)).values()
    for (const [index, { id }] of unknown.entries()) {
      const sha = ids[index]
      const state = sha ? stateOfSummary(summaries.next().value ?? NO_STATUSES) : null
      this.#conditions.set(id, sha === null ? 'empty' : state === 'failure' ? 'broken' : 'other')
    }
  }

  /** Returns the candidates in the order of `placeOf`, and in their own where that is the same. */
  sort(candidates: readonly Candidate[]): Candidate[] {
    const place = ({ id, isOwn }: Candidate) => placeOf(isOwn, this.#conditions.get(id))
    return candidates.toSorted((one, other) => place(one) - place(other))
  }
}

/** Returns the place in a list: own repositories first, then broken ones, and empty ones last. */
export function placeOf(isOwn: boolean, condition: Condition = 'other'): number {
  if (condition === 'empty') return 4
  return (isOwn ? 0 : 2) + (condition === 'broken' ? 0 : 1)
}
