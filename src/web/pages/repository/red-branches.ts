import { setImmediate } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Refs } from '../../../git/refs/read-refs.ts'
import { chunksOf } from '../../../util/lists.ts'
import type { PageStore } from '../../routing/page-store.ts'
import { stateOfSummary } from '../../statuses/commit-row.ts'

/** Branches whose newest commits failed. */
export interface RedNames {
  names: ReadonlySet<string>
  /** When they are read again, by `performance.now()`. */
  until: number
}

/** Milliseconds for which it is remembered which branches failed, and of how many repositories. */
const [MAX_AGE, REMEMBERED] = [10_000, 500]
/** The newest branches, which are looked at, and those of one turn of the event loop. */
const [BRANCHES, AT_ONCE] = [1_000, 50]

/**
 * Finds the branches of repositories whose newest commits failed, as of a short time ago: a page that read
 * them all would cost much more than what it shows.
 */
export class RedBranches {
  readonly #summaries: PageStore['summaries']
  readonly #known = new LRUCache<number, { refs: Refs; names: Promise<ReadonlySet<string>>; until: number }>({
    max: REMEMBERED,
  })

  constructor({ summaries }: Pick<PageStore, 'summaries'>) {
    this.#summaries = summaries
  }

  async find(repositoryId: number, refs: Refs): Promise<RedNames> {
    let entry = this.#known.get(repositoryId)
    if (entry?.refs !== refs || performance.now() >= entry.until) {
      entry = { refs, names: this.#read(repositoryId, refs), until: performance.now() + MAX_AGE }
      this.#known.set(repositoryId, entry)
    }
    try {
      return { names: await entry.names, until: entry.until }
    } catch (error) {
      if (this.#known.get(repositoryId) === entry) this.#known.delete(repositoryId)
      throw error
    }
  }

  async #read(repositoryId: number, { branches }: Refs): Promise<ReadonlySet<string>> {
    const names = new Set<string>()
    for (const some of chunksOf(branches.slice(0, BRANCHES), AT_ONCE)) {
      await setImmediate()
      const found = await this.#summaries.list(some.map(({ sha }) => ({ repositoryId, sha })))
      for (const [index, summary] of found.entries())
        if (stateOfSummary(summary) === 'failure') names.add(some[index]?.name ?? '')
    }
    return names
  }
}
