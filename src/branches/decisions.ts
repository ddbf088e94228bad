import { LRUCache } from 'lru-cache'
import { type RefRule, refRuleMatcher, requiredBy } from '../domain/ref-rules.ts'
import {
  COMBINED,
  type CombinedState,
  combinedState,
  countStates,
  type StatusCounts,
} from '../domain/states.ts'
import { type ReportedContext, type VerdictFinder, verdictFinder } from '../domain/verdict.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import type { Turns } from '../schedule/turns.ts'
import type { Store } from '../store/store.ts'
import { memoizeByObject, numberOf } from '../util/memoize.ts'
import { bytesOfTexts, MEGABYTE } from '../util/memory.ts'

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
  /** null if no check is required, or if nothing but patterns with `*` is, and by no rule. */
  verdict: CombinedState | null
  /** Whether it failed the check `unless`. */
  isPassedOver: boolean
}

/** How candidates are decided. */
interface Deciding {
  /** Patterns that each candidate must meet, beside those of its branches. */
  require: readonly string[]
  /** The exact name of a context. Commits that failed it are passed over. */
  unless?: string | undefined
  /** Rules that count instead of those of the repository. */
  rules?: readonly RefRule[] | undefined
  /** Returns whether a decision is the last one that is wanted. */
  isLast?(decision: Decision): boolean
}

/** What a commit must meet. */
interface Demands {
  /** Without duplicates. */
  patterns: readonly string[]
  unless: string | undefined
  /** Whether they were asked for before. Decisions by those that come once are not kept. */
  recur: boolean
}

/** Commits that are read at once while it is not known how large they are. */
const FIRST_READ = 10
/** Contexts that are read at once, as far as the commits before tell, and commits. */
const READ_CONTEXTS = 10_000
const READ_COMMITS = 60
/** Bytes of demands in memory, and number of those whose matches are. */
const DEMANDS_BYTES = 4 * MEGABYTE
const MAX_FINDERS = 10
/** Bytes of decisions in memory, and of one of them, with its key and its place in the cache. */
const DECISIONS_BYTES = 32 * MEGABYTE
const DECISION_BYTES = 300

export type Decide = ReturnType<typeof createDecisions>

/**
 * Returns a function that decides whether commits have passed the checks that branches require, by
 * the rule that decides about a push too. A decision is remembered with the statuses and the
 * demands from which it follows.
 */
export function createDecisions(store: Pick<Store, 'rules' | 'reportedContexts' | 'remote'>, turns: Turns) {
  const { rules, reportedContexts, remote } = store
  const matcherOf = memoizeByObject((all: readonly RefRule[]) => refRuleMatcher(all))
  const demands = new LRUCache<string, Demands>({
    maxSize: DEMANDS_BYTES,
    sizeCalculation: ({ patterns }, key) => 300 + bytesOfTexts([key, ...patterns]),
  })
  const finders = new LRUCache<Demands, VerdictFinder>({ max: MAX_FINDERS })
  /**
   * Decisions by the contexts and the demands from which they follow. Anybody may ask with other demands
   * each time, so those that come once leave none, and the least recently used ones are dropped.
   */
  const known = new LRUCache<string, Decision>({ max: Math.floor(DECISIONS_BYTES / DECISION_BYTES) })

  /** Returns what a candidate must meet: the same object for equal demands. */
  function demandsOf({ require, unless }: Deciding, matching: readonly RefRule[]): Demands {
    const ruled = requiredBy(matching)
    // The first report that matches one with `*` would meet it, and rules name a check exactly.
    const isExact = ruled.length > 0 || require.some((pattern) => !pattern.includes('*'))
    const patterns = isExact ? [...new Set([...require, ...ruled])] : []
    // No name contains it.
    const key = [unless ?? '', ...patterns].join('\0')
    const earlier = demands.get(key)
    if (earlier) earlier.recur = true
    const equal = earlier ?? { patterns, unless, recur: false }
    if (!earlier) demands.set(key, equal)
    return equal
  }

  /** Returns `demandsOf` for candidates one after the other: mostly the same rules match. */
  function followDemands(deciding: Deciding) {
    let latest: { matching: readonly RefRule[]; demands: Demands } = {
      matching: [],
      demands: demandsOf(deciding, []),
    }
    return (all: readonly RefRule[], refs: readonly string[]) => {
      const matching = refs.flatMap((ref) => matcherOf(all)(ref))
      const isSame = (rule: RefRule, index: number) => rule === latest.matching[index]
      if (matching.length !== latest.matching.length || !matching.every(isSame))
        latest = { matching, demands: demandsOf(deciding, matching) }
      return latest.demands
    }
  }

  function* decisionOf(
    reported: readonly ReportedContext[],
    demands: Demands,
  ): Generator<undefined, Decision, undefined> {
    const key = `${numberOf(reported)} ${numberOf(demands)}`
    const earlier = known.get(key)
    if (earlier) return earlier
    const { patterns, unless } = demands
    const finder = finders.get(demands) ?? verdictFinder(patterns)
    finders.set(demands, finder)
    const verdict = patterns.length === 0 ? null : yield* finder(reported)
    const hasFailed = ({ context, state }: ReportedContext) =>
      context === unless && COMBINED[state] === 'failure'
    const decision = { ...summaryOf(reported), verdict, isPassedOver: reported.some(hasFailed) }
    if (demands.recur) known.set(key, decision)
    return decision
  }

  /**
   * Reads the statuses of commits and the rules as they were at one moment: rules that are the same
   * before and after have held in between.
   *
   * @param earlier rules that were read before
   */
  async function readTogether(
    repositoryId: number,
    shas: readonly string[],
    loadRules: () => Promise<readonly RefRule[]>,
    earlier: readonly RefRule[] | undefined,
  ) {
    for (let before = earlier ?? (await loadRules()); ; ) {
      const reported = await reportedContexts(repositoryId, shas)
      const after = await loadRules()
      if (before === after || JSON.stringify(before) === JSON.stringify(after))
        return { rules: after, reported }
      before = after
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
    deciding: Deciding,
    client: QueueClient,
  ): Promise<Decision[]> => {
    const { rules: given, isLast = () => false } = deciding
    const decisions: Decision[] = []
    let together: Awaited<ReturnType<typeof readTogether>> = { rules: [], reported: [] }
    // Where a statement is a round trip, few have many commits, but not many large ones. Elsewhere
    // little is read in vain.
    let [start, end, size] = [0, 0, remote ? FIRST_READ : 1]
    const loadRules = async () => given ?? rules.load(repositoryId)
    const read = async () => {
      start = end
      end = Math.min(start + size, candidates.length)
      const shas = candidates.slice(start, end).map(({ sha }) => sha)
      together = await readTogether(repositoryId, shas, loadRules, start === 0 ? undefined : together.rules)
      const contexts = together.reported.reduce((sum, { length }) => sum + length, 1)
      const most = remote ? READ_COMMITS : 2 * size
      size = Math.min(READ_COMMITS, most, Math.ceil((READ_CONTEXTS * shas.length) / contexts))
    }
    const demandsFor = followDemands(deciding)
    let current: ReturnType<typeof decisionOf> | undefined
    const step = () => {
      if (decisions.length === candidates.length) return true
      if (decisions.length === end) return read
      current ??= decisionOf(
        together.reported[decisions.length - start] ?? [],
        demandsFor(together.rules, candidates[decisions.length]?.refs ?? []),
      )
      const { done, value: decision } = current.next()
      if (!done) return false
      current = undefined
      decisions.push(decision)
      return isLast(decision)
    }
    await turns.run(client, step)
    return decisions
  }
}

const summaryOf = memoizeByObject((reported: readonly ReportedContext[]) => ({
  state: combinedState(reported.map(({ state }) => state)),
  counts: countStates(reported),
}))
