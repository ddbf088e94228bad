import { LRUCache } from 'lru-cache'
import { type RefRule, refRuleMatcher, requiredBy } from '../domain/ref-rules.ts'
import {
  COMBINED,
  type CombinedState,
  combinedState,
  countStates,
  type StatusCounts,
} from '../domain/states.ts'
import { type ReportedContext, type Steps, type VerdictFinder, verdictFinder } from '../domain/verdict.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import type { Turns } from '../schedule/turns.ts'
import type { Store } from '../store/store.ts'
import { memoizeByObject, numberOf } from '../util/memoize.ts'
import { bytesOfTexts, shareOfMemory } from '../util/memory.ts'

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

/** What is asked about candidates. */
interface Criteria {
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
const DEMANDS_BYTES = shareOfMemory(4)
const MAX_FINDERS = 10
/** Bytes of decisions in memory, and of one of them, with its key and its place in the cache. */
const DECISIONS_BYTES = shareOfMemory(32)
const DECISION_BYTES = 300

export type Decide = ReturnType<typeof createDecisions>
type DecidingStore = Pick<Store, 'rules' | 'reportedContexts' | 'remote'>

/**
 * Returns a function that decides whether commits have passed the checks that branches require, by
 * the rule that decides about a push too. A decision is remembered with the statuses and the
 * demands from which it follows.
 */
export function createDecisions(store: DecidingStore, turns: Turns) {
  const known = new KnownDecisions()

  /**
   * Decides about candidates in their order, until all are decided or one is the last.
   *
   * @throws StoreUnavailable, QueueFull, the signal's reason
   */
  return async (
    repositoryId: number,
    candidates: readonly Candidate[],
    criteria: Criteria,
    client: QueueClient,
  ): Promise<Decision[]> => {
    const deciding = new Deciding(store, known, repositoryId, candidates, criteria)
    await turns.run(client, () => deciding.step())
    return deciding.decisions
  }
}

/**
 * Decides about candidates, one after the other:
 *
 * ```
 *   read the statuses of some, and the rules ──▶ decide about each ──▶ all are decided, or one is the last
 *                      ▲                                │
 *                      └─── more candidates are left ───┘
 * ```
 */
class Deciding {
  readonly decisions: Decision[] = []
  readonly #store: DecidingStore
  readonly #known: KnownDecisions
  readonly #repositoryId: number
  readonly #candidates: readonly Candidate[]
  readonly #criteria: Criteria
  /** The candidates that were read last: the first one, and the one after them. */
  #start = 0
  #end = 0
  #reported: readonly (readonly ReportedContext[])[] = []
  /** undefined before anything was read. */
  #rules: readonly RefRule[] | undefined
  /**
   * Candidates that are read next. Where a statement is a round trip, few have many commits, but not
   * many large ones. Elsewhere little is read in vain.
   */
  #size: number
  /** What the candidate before had to meet: mostly the same rules match the next one. */
  #latest: { matching: readonly RefRule[]; demands: Demands }
  /** The candidate that is being decided. */
  #current: Steps<Decision> | undefined

  constructor(
    store: DecidingStore,
    known: KnownDecisions,
    repositoryId: number,
    candidates: readonly Candidate[],
    criteria: Criteria,
  ) {
    this.#store = store
    this.#known = known
    this.#repositoryId = repositoryId
    this.#candidates = candidates
    this.#criteria = criteria
    this.#size = store.remote ? FIRST_READ : 1
    this.#latest = { matching: [], demands: known.demandsOf(criteria, []) }
  }

  /** Takes a step as `Turns.run` does: returns whether it was the last one, or what is to be read. */
  step(): boolean | (() => Promise<void>) {
    const index = this.decisions.length
    const candidate = this.#candidates[index]
    if (!candidate) return true
    if (index === this.#end) return () => this.#read()
    this.#current ??= this.#known.decide(
      this.#reported[index - this.#start] ?? [],
      this.#demandsOn(candidate.refs),
    )
    const { done, value: decision } = this.#current.next()
    if (!done) return false
    this.#current = undefined
    this.decisions.push(decision)
    return this.#criteria.isLast?.(decision) ?? false
  }

  /** Reads the statuses of the next candidates, and how many there may be after them. */
  async #read(): Promise<void> {
    this.#start = this.#end
    this.#end = Math.min(this.#start + this.#size, this.#candidates.length)
    const shas = this.#candidates.slice(this.#start, this.#end).map(({ sha }) => sha)
    await this.#readTogether(shas)
    const contexts = this.#reported.reduce((sum, { length }) => sum + length, 1)
    const most = this.#store.remote ? READ_COMMITS : 2 * this.#size
    this.#size = Math.min(READ_COMMITS, most, Math.ceil((READ_CONTEXTS * shas.length) / contexts))
  }

  /**
   * Reads the statuses of commits and the rules as they were at one moment: rules that are the same
   * before and after have held in between.
   */
  async #readTogether(shas: readonly string[]): Promise<void> {
    for (let before = this.#rules ?? (await this.#loadRules()); ; ) {
      this.#reported = await this.#store.reportedContexts(this.#repositoryId, shas)
      const after = await this.#loadRules()
      this.#rules = after
      if (before === after || JSON.stringify(before) === JSON.stringify(after)) return
      before = after
    }
  }

  async #loadRules(): Promise<readonly RefRule[]> {
    return this.#criteria.rules ?? this.#store.rules.load(this.#repositoryId)
  }

  /** Returns what a commit must meet for these refs. */
  #demandsOn(refs: readonly string[]): Demands {
    const rulesOf = this.#known.matcherOf(this.#rules ?? [])
    const matching = refs.flatMap((ref) => rulesOf(ref))
    const { matching: before } = this.#latest
    const isSame =
      matching.length === before.length && matching.every((rule, index) => rule === before[index])
    if (!isSame) this.#latest = { matching, demands: this.#known.demandsOf(this.#criteria, matching) }
    return this.#latest.demands
  }
}

/** Remembers decisions, and what they follow from. */
class KnownDecisions {
  readonly matcherOf = memoizeByObject((all: readonly RefRule[]) => refRuleMatcher(all))
  readonly #demands = new LRUCache<string, Demands>({
    maxSize: DEMANDS_BYTES,
    sizeCalculation: ({ patterns }, key) => 300 + bytesOfTexts([key, ...patterns]),
  })
  readonly #finders = new LRUCache<Demands, VerdictFinder>({ max: MAX_FINDERS })
  /**
   * By the contexts and the demands from which they follow. Anybody may ask with other demands each
   * time, so those that come once leave none, and the least recently used ones are dropped.
   */
  readonly #decisions = new LRUCache<string, Decision>({
    maxSize: DECISIONS_BYTES,
    sizeCalculation: () => DECISION_BYTES,
  })

  /** Returns what a commit must meet where these rules match: the same object for equal demands. */
  demandsOf({ require, unless }: Criteria, matching: readonly RefRule[]): Demands {
    const ruled = requiredBy(matching)
    // The first report that matches one with `*` would meet it, and rules name a check exactly.
    const isExact = ruled.length > 0 || require.some((pattern) => !pattern.includes('*'))
    const patterns = isExact ? [...new Set([...require, ...ruled])] : []
    // No name contains it.
    const key = [unless ?? '', ...patterns].join('\0')
    const earlier = this.#demands.get(key)
    if (earlier) {
      earlier.recur = true
      return earlier
    }
    const demands = { patterns, unless, recur: false }
    this.#demands.set(key, demands)
    return demands
  }

  /** Decides whether a commit with these contexts meets demands. */
  *decide(reported: readonly ReportedContext[], demands: Demands): Steps<Decision> {
    const key = `${numberOf(reported)} ${numberOf(demands)}`
    const earlier = this.#decisions.get(key)
    if (earlier) return earlier
    const { patterns, unless } = demands
    const verdict = patterns.length === 0 ? null : yield* this.#finderOf(demands)(reported)
    const hasFailed = ({ context, state }: ReportedContext) =>
      context === unless && COMBINED[state] === 'failure'
    const decision = { ...summaryOf(reported), verdict, isPassedOver: reported.some(hasFailed) }
    if (demands.recur) this.#decisions.set(key, decision)
    return decision
  }

  #finderOf(demands: Demands): VerdictFinder {
    const finder = this.#finders.get(demands) ?? verdictFinder(demands.patterns)
    this.#finders.set(demands, finder)
    return finder
  }
}

const summaryOf = memoizeByObject((reported: readonly ReportedContext[]) => ({
  state: combinedState(reported.map(({ state }) => state)),
  counts: countStates(reported),
}))
