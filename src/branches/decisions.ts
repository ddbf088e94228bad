import { LRUCache } from 'lru-cache'
import { type RefRule, refRuleMatcher, requiredBy } from '../domain/ref-rules.ts'
import { type CombinedState, combinedState, type StatusCounts } from '../domain/states.ts'
import { type ReportedContext, verdictOf } from '../domain/verdict.ts'
import type { GitClient } from '../git/history/cached-reads.ts'
import { NO_STATUSES } from '../store/statuses/status-summaries.ts'
import type { Store } from '../store/store.ts'
import { memoizeByObject } from '../util/memoize.ts'
import type { Turns } from './turns.ts'

/** A commit, and what it is asked about. */
export interface Candidate {
  sha: string
  /** Full names of the branches whose rules count. */
  refs: readonly string[]
}

/** What is known about a commit. */
export interface Decision {
  /** The combined state of all contexts; null without any. */
  state: CombinedState | null
  counts: StatusCounts
  /** null if no check is required. */
  verdict: CombinedState | null
}

/** How candidates are decided. */
interface Deciding {
  /** Patterns that each candidate must meet, beside those of its branches. */
  require: readonly string[]
  /** Returns whether a decision is the last one that is wanted. */
  isLast?(decision: Decision): boolean
}

/** Commits that are read at once: one statement on PostgreSQL, and few, since a commit may be large. */
const READ_AT_ONCE = 10
/** Lists of patterns in memory. */
const MAX_LISTS = 1_000

export type Decide = ReturnType<typeof createDecisions>

/**
 * Returns a function that decides whether commits have passed the checks that branches require, by
 * the rule that decides about a push too. A decision is remembered with the statuses and the
 * patterns from which it follows.
 */
export function createDecisions(store: Pick<Store, 'rules' | 'reportedContexts' | 'engine'>, turns: Turns) {
  const { rules, reportedContexts, engine } = store
  const matcherOf = memoizeByObject((all: readonly RefRule[]) => refRuleMatcher(all))
  const lists = new LRUCache<string, readonly string[]>({ max: MAX_LISTS })

  /** Returns the patterns that a candidate must meet: the same list for equal ones. */
  function patternsOf(
    all: readonly RefRule[],
    refs: readonly string[],
    require: readonly string[],
  ): readonly string[] {
    const patterns = [...new Set([...require, ...refs.flatMap((ref) => requiredBy(matcherOf(all)(ref)))])]
    // No pattern contains it.
    const key = patterns.join('\0')
    const list = lists.get(key) ?? patterns
    lists.set(key, list)
    return list
  }

  /**
   * Reads the statuses of commits and the rules as they were at one moment: rules that are the same
   * before and after have held in between.
   */
  async function readTogether(repositoryId: number, shas: readonly string[]) {
    for (;;) {
      const before = await rules.load(repositoryId)
      const reported = await reportedContexts(repositoryId, shas)
      const after = await rules.load(repositoryId)
      if (before === after || JSON.stringify(before) === JSON.stringify(after))
        return { rules: after, reported }
    }
  }

  /**
   * Decides about candidates in their order, until all are decided or one is the last.
   *
   * @throws StoreUnavailable, QueueFull, the signal's reason
   */
  return async (
    repositoryId: number,
    candidates: readonly Candidate[],
    { require, isLast = () => false }: Deciding,
    client: GitClient,
  ): Promise<Decision[]> => {
    const decisions: Decision[] = []
    const step = engine.remote ? READ_AT_ONCE : 1
    if (candidates.length > 0)
      await turns.run(client, async () => {
        const next = candidates.slice(decisions.length, decisions.length + step)
        const together = await readTogether(
          repositoryId,
          next.map(({ sha }) => sha),
        )
        for (const [index, { refs }] of next.entries()) {
          const patterns = patternsOf(together.rules, refs, require)
          const decision = decisionOf(together.reported[index] ?? [], patterns)
          decisions.push(decision)
          if (isLast(decision)) return true
        }
        return decisions.length === candidates.length
      })
    return decisions
  }
}

/** Decisions by the contexts and the patterns from which they follow. */
const known = new WeakMap<readonly ReportedContext[], WeakMap<readonly string[], Decision>>()

function decisionOf(reported: readonly ReportedContext[], patterns: readonly string[]): Decision {
  const byPatterns = known.get(reported) ?? new WeakMap<readonly string[], Decision>()
  const earlier = byPatterns.get(patterns)
  if (earlier) return earlier
  const verdict = patterns.length === 0 ? null : verdictOf(reported, patterns).verdict
  const decision = { ...summaryOf(reported), verdict }
  known.set(reported, byPatterns.set(patterns, decision))
  return decision
}

const summaryOf = memoizeByObject((reported: readonly ReportedContext[]) => {
  const counts = { ...NO_STATUSES.counts }
  for (const { state } of reported) counts[state]++
  return { state: combinedState(reported.map(({ state }) => state)), counts }
})
