import { LRUCache } from 'lru-cache'
import { patternMatcher } from '../domain/patterns.ts'
import type { Tip } from '../git/history/branch-lists.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import type { Turns } from '../schedule/turns.ts'
import { sortedIndex } from '../util/lists.ts'

/** Names that are compared in one step of a turn. */
const COMPARED_AT_ONCE = 50

/** Which branches are wanted. */
export interface TipQuery {
  /** Pattern of names. Default: all. */
  match?: string
  /** The name after which to begin, by code points. */
  after?: string
}

/** Questions about a list of branches whose answers are remembered. */
const MAX_QUESTIONS = 20
const known = new WeakMap<readonly Tip[], LRUCache<string, Tip[]>>()

/**
 * Finds the first branches that match, and one more, which tells that there are others: the same
 * array as before for the same list and question.
 *
 * @param count number of branches
 * @throws as `Turns.run`
 */
export async function findMatching(
  turns: Turns,
  tips: readonly Tip[],
  query: TipQuery,
  count: number,
  client: QueueClient,
): Promise<readonly Tip[]> {
  const questions = known.get(tips) ?? new LRUCache({ max: MAX_QUESTIONS })
  known.set(tips, questions)
  const key = JSON.stringify([query.match, query.after, count])
  const earlier = questions.get(key)
  if (earlier) return earlier
  const matching = await compareNames(turns, tips, query, count, client)
  questions.set(key, matching)
  return matching
}

async function compareNames(
  turns: Turns,
  tips: readonly Tip[],
  { match = '*', after }: TipQuery,
  count: number,
  client: QueueClient,
): Promise<Tip[]> {
  const matches = patternMatcher(match)
  const matching: Tip[] = []
  let position = after === undefined ? 0 : indexAfter(tips, after)
  await turns.run(client, () => {
    const end = Math.min(position + COMPARED_AT_ONCE, tips.length)
    for (; position < end && matching.length <= count; position++) {
      const tip = tips[position]
      if (tip && matches(tip.name)) matching.push(tip)
    }
    return position >= tips.length || matching.length > count
  })
  return matching
}

/** Returns the index of the first branch whose name comes after another one, by code points. */
function indexAfter(tips: readonly Tip[], name: string): number {
  const bytes = Buffer.from(name)
  return sortedIndex(tips, (tip) => Buffer.compare(Buffer.from(tip.name), bytes) <= 0)
}
