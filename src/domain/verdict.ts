import type { components } from '../../generated/schema.ts'
import { boundedMemoize } from '../util/memoize.ts'
import { replaceHidden } from '../util/replace-characters.ts'
import { truncate } from '../util/truncate.ts'
import { patternMatcher } from './patterns.ts'
import { addState, COMBINED, type CombinedState, combinedState } from './states.ts'

export type CommitVerdict = components['schemas']['CommitVerdict']
/** What a verdict depends on. */
export type ReportedContext = Pick<components['schemas']['Status'], 'context' | 'state'>

/** A required check that has not passed. */
interface UnmetCheck {
  /** A context, or a pattern that none matches. */
  name: string
  /** null if it has not been reported. */
  state: ReportedContext['state'] | null
}

/** A verdict, and why it is not `success`: `ci/test reported failure, lint has not reported`. */
export interface ExplainedVerdict extends Pick<CommitVerdict, 'verdict' | 'required'> {
  /** null if the verdict is `success`. */
  reason: string | null
  /** What decides the verdict comes first: failed, not reported, pending. */
  unmet: readonly UnmetCheck[]
}

/** Maximum length of a name in code points, and maximum number of reasons that are spelled out. */
const MAX_NAME = 100
const MAX_REASONS = 3
/** Names whose matches a finder remembers. */
const MAX_FINDER_NAMES = 3_000
/** Comparisons of a name with a pattern in one step. They take microseconds each at most. */
const STEP = 100

/** Computes in steps that take a fraction of a millisecond. */
export type Steps<Result> = Generator<undefined, Result, undefined>

/**
 * Decides whether a commit has passed its required checks: the one definition of a verdict. The first
 * rule that holds wins:
 *
 * 1. A required context is `failure` or `error`: `failure`.
 * 2. A required context is `pending`, or a pattern matches none: `pending`.
 * 3. Otherwise `success`.
 *
 * Without patterns all contexts are required, and there must be one.
 *
 * How contexts are compared with patterns is not part of it, since there are two ways: `verdictSteps`
 * says of one commit how each pattern stands, and `verdictFinder` compares the names of many commits
 * once. Both see all reports in memory; no statement of the database decides.
 *
 * @param state the combined state of the required contexts; null if none is reported
 * @param isMissing whether a pattern matches none
 */
function verdictOf(state: CombinedState | null, isMissing: boolean): CombinedState {
  return state === null || (isMissing && state !== 'failure') ? 'pending' : state
}

/**
 * Decides about one commit, and says how each pattern stands.
 *
 * @param reported ordered by the code points of `context`
 * @param patterns without duplicates
 */
export function* verdictSteps(
  reported: readonly ReportedContext[],
  patterns: readonly string[],
): Steps<CommitVerdict> {
  const required: CommitVerdict['required'] = []
  let compared = 0
  for (const pattern of patterns) {
    const matches = patternMatcher(pattern)
    const matching: ReportedContext[] = []
    for (const one of reported) {
      if (matches(one.context)) matching.push(one)
      if (++compared % STEP === 0) yield
    }
    required.push({ pattern, state: stateOf(matching), contexts: matching.map(({ context }) => context) })
  }

  const state = stateOf(reported)
  const requiredStates = required.flatMap((pattern) => pattern.state ?? [])
  const requiredState = patterns.length === 0 ? state : combinedState(requiredStates)
  return { verdict: verdictOf(requiredState, requiredStates.length < patterns.length), state, required }
}

function stateOf(reported: readonly ReportedContext[]) {
  return combinedState(reported.map(({ state }) => state))
}

/** See `verdictFinder`. */
export type VerdictFinder = ReturnType<typeof verdictFinder>

/**
 * Returns a function that finds the verdicts of many commits, as `verdictSteps` does. Commits report
 * mostly the same contexts, so each name is compared with each pattern once.
 *
 * The function yields after each name that it has compared, which takes a fraction of a millisecond.
 *
 * @param patterns without duplicates, at least one
 */
export function verdictFinder(patterns: readonly string[]) {
  const matchers = patterns.map(patternMatcher)
  const all = (1n << BigInt(patterns.length)) - 1n
  let hasCompared = false
  /** Returns a bit for each pattern that a name matches. */
  const matchesOf = boundedMemoize(MAX_FINDER_NAMES, (name: string) => {
    hasCompared = true
    return matchers.reduce((all, matches, index) => (matches(name) ? all | (1n << BigInt(index)) : all), 0n)
  })

  return function* find(reported: readonly ReportedContext[]): Steps<CombinedState> {
    let met = 0n
    let required: CombinedState | null = null
    for (const { context, state } of reported) {
      const matching = matchesOf(context)
      if (hasCompared) {
        hasCompared = false
        yield
      }
      if (matching === 0n) continue
      required = addState(required, state)
      // Nothing that follows changes it.
      if (required === 'failure') break
      if (met !== all) met |= matching
    }
    return verdictOf(required, met !== all)
  }
}

/**
 * Decides whether a commit meets required checks, and says why it does not. What decides the
 * verdict comes first.
 *
 * @param reported and `patterns` as `verdictSteps` takes them; at least one pattern
 */
export function* explanationSteps(
  reported: readonly ReportedContext[],
  patterns: readonly string[],
): Steps<ExplainedVerdict> {
  const { verdict, required } = yield* verdictSteps(reported, patterns)
  if (verdict === 'success') return { verdict, required, reason: null, unmet: [] }

  const contexts = new Set<string>()
  for (const pattern of required) {
    for (const context of pattern.contexts) contexts.add(context)
    yield
  }
  const requiredContexts = reported.filter(({ context }) => contexts.has(context))
  const those = (combined: CombinedState) =>
    requiredContexts
      .filter(({ state }) => COMBINED[state] === combined)
      .map(({ context, state }) => ({ name: context, state }))
  const missingPatterns = required.filter(({ state }) => state === null)
  const unmet = [
    ...those('failure'),
    ...missingPatterns.map(({ pattern }) => ({ name: pattern, state: null })),
    ...those('pending'),
  ]

  const more = unmet.length - MAX_REASONS
  const reasons = unmet.slice(0, MAX_REASONS).map(reasonOf)
  return { verdict, required, reason: reasons.join(', ') + (more > 0 ? `, and ${more} more` : ''), unmet }
}

/** Does the same as `explanationSteps` at once. */
export function explainVerdict(...args: Parameters<typeof explanationSteps>): ExplainedVerdict {
  const steps = explanationSteps(...args)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

function reasonOf({ name, state }: UnmetCheck): string {
  const text = truncate(replaceHidden(name), MAX_NAME)
  const shownName = text.trim() === '' ? `"${text}"` : text
  if (state === null) return `${shownName} has not reported`
  return `${shownName} ${COMBINED[state] === 'failure' ? 'reported' : 'is'} ${state}`
}
