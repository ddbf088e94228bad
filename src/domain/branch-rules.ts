import { schemas } from '../../generated/schemas.ts'
import { checkPattern, checkPatterns, patternMatcher } from './patterns.ts'
import { Refusal } from './refusal.ts'

/** What the full names of branches begin with. */
export const BRANCHES = 'refs/heads/'

/** Which checks a commit must have passed before it becomes the tip of certain branches. */
export interface BranchRule {
  /** Matches names of branches without `refs/heads/`. `*` stands for any characters. */
  branchPattern: string
  /** Context patterns. Each must match a context, and all that it matches must be `success`. */
  required: readonly string[]
  /** Users who may push to these branches without the checks. */
  bypass: readonly { id: number; name: string }[]
}

/** Maximum number of users who may bypass one rule. */
const MAX_BYPASSES = 20
/**
 * Maximum number of context patterns in all rules of a repository, so that a commit with 1,000
 * contexts is decided in about 7 ms. A pattern counts in each rule that requires it.
 */
export const MAX_REPOSITORY_PATTERNS = 100

/** Returns the rules that apply to a branch. @param branch its name without `refs/heads/` */
export function rulesFor(rules: readonly BranchRule[], branch: string): BranchRule[] {
  return ruleMatcher(rules)(branch)
}

/** Returns `rulesFor` for many branches, which compiles the patterns once. */
export function ruleMatcher(rules: readonly BranchRule[]): (branch: string) => BranchRule[] {
  const matchers = rules.map((rule) => ({ rule, matches: patternMatcher(rule.branchPattern) }))
  return (branch) => matchers.filter(({ matches }) => matches(branch)).map(({ rule }) => rule)
}

/** Returns the patterns that any of the rules requires, without duplicates. */
export function requiredBy(rules: readonly Pick<BranchRule, 'required'>[]): string[] {
  return [...new Set(rules.flatMap(({ required }) => required))]
}

/**
 * Returns whether the first context that matches meets a list of patterns, since all contain `*`.
 * Whatever has not reported yet is not missed. `validateRule` refuses such lists; rules of earlier
 * versions may have one.
 */
export function isMetByFirstMatch(required: readonly string[]): boolean {
  return required.length > 0 && required.every((pattern) => pattern.includes('*'))
}

/** Returns whether a user may bypass each of the rules. False if there are none. */
export function isBypassedBy(rules: readonly BranchRule[], userId: number): boolean {
  return rules.length > 0 && rules.every(({ bypass }) => bypass.some(({ id }) => id === userId))
}

/** Returns the rule without duplicates. @throws Refusal if it breaks a limit */
export function validateRule({ branchPattern, required, bypass }: BranchRule): BranchRule {
  if (branchPattern.startsWith(BRANCHES))
    throw new Refusal(`branch pattern "${branchPattern}": leave out "${BRANCHES}"`)
  const rule = {
    branchPattern,
    required: [...new Set(required)],
    bypass: [...new Map(bypass.map((user) => [user.id, user])).values()],
  }
  // No name of a branch in the contract is longer.
  checkPattern('branch pattern', branchPattern, schemas.Branch)
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
