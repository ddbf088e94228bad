import { schemas } from '../../generated/schemas.ts'
import { checkPattern, checkPatterns } from './patterns.ts'
import { Refusal } from './refusal.ts'
import { flawOfPattern, refMatcher } from './rule-patterns.ts'

/**
 * Which checks a commit must have passed before it becomes the tip of certain branches, or before
 * certain tags name it.
 */
export interface RefRule {
  /**
   * Matches names of branches without `refs/heads/`; or full names of tags, if it begins with
   * `refs/tags/`. `*` stands for any characters. Upper and lower case differ, as in git.
   */
  refPattern: string
  /** Context patterns. Each must match a context, and all that it matches must be `success`. */
  required: readonly string[]
  /** Users who may push to these branches and tags without the checks. */
  bypass: readonly { id: number; name: string }[]
}

/** Maximum number of users who may bypass one rule. */
export const MAX_BYPASSES = 20
/**
 * Maximum number of context patterns in all rules of a repository, so that a commit with 1,000
 * contexts is decided in about 7 ms. A pattern counts in each rule that requires it.
 */
export const MAX_REPOSITORY_PATTERNS = 100

/** Returns the rules that apply to a branch or tag. @param ref its full name */
export function rulesOfRef(rules: readonly RefRule[], ref: string): RefRule[] {
  return refRuleMatcher(rules)(ref)
}

/** Returns `rulesOfRef` for many refs, which compiles the patterns once. */
export function refRuleMatcher(rules: readonly RefRule[]): (ref: string) => RefRule[] {
  const matchers = rules.map((rule) => ({ rule, matches: refMatcher(rule.refPattern) }))
  return (ref) => matchers.filter(({ matches }) => matches(ref)).map(({ rule }) => rule)
}

/** Returns the patterns that any of the rules requires, without duplicates. */
export function requiredBy(rules: readonly Pick<RefRule, 'required'>[]): string[] {
  return [...new Set(rules.flatMap(({ required }) => required))]
}

/**
 * Returns whether the first context that matches meets a list of patterns, since all contain `*`.
 * Whatever has not reported yet is not missed. `validateRule` refuses such lists; rules of earlier
 * versions may have one.
 */
function isMetByFirstMatch(required: readonly string[]): boolean {
  return required.length > 0 && required.every((pattern) => pattern.includes('*'))
}

/** Returns what to say about a rule of an earlier version that does not do what it seems to do. */
export function flawsOfRule({ refPattern, required }: RefRule): string[] {
  return [
    ...(flawOfPattern(refPattern) === null ? [] : ['never matches']),
    ...(isMetByFirstMatch(required) ? ['met by the first match'] : []),
  ]
}

/** Returns whether a user may bypass each of the rules. False if there are none. */
export function isBypassedBy(rules: readonly RefRule[], userId: number): boolean {
  return rules.length > 0 && rules.every(({ bypass }) => bypass.some(({ id }) => id === userId))
}

/** Returns the rule without duplicates. @throws Refusal if it breaks a limit */
export function validateRule({ refPattern, required, bypass }: RefRule): RefRule {
  const rule = {
    refPattern,
    required: [...new Set(required)],
    bypass: [...new Map(bypass.map((user) => [user.id, user])).values()],
  }
  // No name of a branch in the contract is longer.
  checkPattern('pattern', refPattern, schemas.Branch)
  const flaw = flawOfPattern(refPattern)
  if (flaw !== null) throw new Refusal(`pattern ${JSON.stringify(refPattern)}: ${flaw}`)
  checkPatterns('required pattern', rule.required)
  if (rule.required.length === 0) throw new Refusal('a rule requires at least one pattern')
  if (isMetByFirstMatch(rule.required)) {
    const patterns = rule.required.map((pattern) => JSON.stringify(pattern)).join(', ')
    throw new Refusal(
      `all required patterns contain "*" (${patterns}): the first match meets them, whatever has not reported yet; ` +
        'also name a context exactly, such as the one that reports last',
    )
  }
  if (rule.bypass.length > MAX_BYPASSES)
    throw new Refusal(`${rule.bypass.length} users who may bypass; at most ${MAX_BYPASSES} are allowed`)
  return rule
}

/**
 * Checks how many patterns the rules of a repository require in all. Repositories may have more
 * from before there was a maximum: then a change must not add any.
 *
 * @throws Refusal if there would be too many
 */
export function checkPatternTotal(before: number, after: number): void {
  if (after <= Math.max(before, MAX_REPOSITORY_PATTERNS)) return
  const existing = before > MAX_REPOSITORY_PATTERNS ? ` The ${before} that it has keep working.` : ''
  throw new Refusal(
    `the rules of the repository would together require ${after} patterns; at most ${MAX_REPOSITORY_PATTERNS} are allowed.` +
      `${existing} Remove a rule or require fewer patterns`,
  )
}
