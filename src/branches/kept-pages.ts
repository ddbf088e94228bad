import { LRUCache } from 'lru-cache'
import type { BranchLists, Tip } from '../git/history/branch-lists.ts'
import type { Turns } from '../schedule/turns.ts'
import { numberOf } from '../util/memoize.ts'
import { bytesOfTexts, shareOfMemory } from '../util/memory.ts'

/** Bytes of pages of one kind in memory. The least recently used ones are dropped. */
const CACHE_BYTES = shareOfMemory(8)

interface Page {
  readonly branches: readonly Tip[]
}

/** See `createKeptPages`. */
type KeepPage<Kept> = (sources: readonly object[], question: string, make: () => Kept) => Kept

/** What pages of branches are made with. */
export interface PageSources<Kept> {
  lists: BranchLists
  turns: Turns
  keepPage: KeepPage<Kept>
}

/**
 * Returns a function that makes pages, and returns the same page as before for the same sources and
 * question, so that an unchanged answer is encoded once.
 */
export function createKeptPages<Kept extends Page>(): KeepPage<Kept> {
  const pages = new LRUCache<string, Kept>({
    maxSize: CACHE_BYTES,
    // Encoded too, it takes its names and ids once more.
    sizeCalculation: ({ branches }, key) =>
      500 + 600 * branches.length + 2 * bytesOfTexts([key, ...branches.map(({ name }) => name)]),
  })
  return (sources, question, make) => {
    const key = `${sources.map(numberOf).join(' ')} ${question}`
    const earlier = pages.get(key)
    if (earlier) return earlier
    const page = make()
    pages.set(key, page)
    return page
  }
}
