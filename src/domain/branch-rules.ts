import { schemas } from '../../generated/schemas.ts'
import { checkPattern, checkPatterns, matchesPattern } from './patterns.ts'
import { RuleViolation } from './rule-violation.ts'

/** Which checks a commit must have passed before it becomes the tip of certain branches. */
export interface BranchRule {
  /** Matches names of branches without `refs/heads/`. `*` stands for any characters. */
  branchPattern: string
  /** Context patterns. Each must match a context of the commit, and every context that it matches must be `success`. */
  required: readonly string[]
  /** Users who may push to these branches without the checks. */
  bypass: readonly { id: number; name: string }[]
}

/** Maximum number of users who may bypass one rule. */
const MAX_BYPASSES = 20

/** Returns the rules that apply to a branch. @param branch its name without `refs/heads/` */
export function rulesFor(rules: readonly BranchRule[], branch: string): BranchRule[] {
  return rules.filter(({ branchPattern }) => matchesPattern(branchPattern, branch))
}

/** Returns the patterns that any of the rules requires, without duplicates. */
export function requiredBy(rules: readonly BranchRule[]): string[] {
  return [...new Set(rules.flatMap(({ required }) => required))]
}

/**
 * Returns whether the first context that matches meets a list of patterns, since all contain `*`. Whatever has not reported yet
 * is not missed. `validateRule` refuses such lists; rules of earlier versions may have one.
 */
export function isMetByFirstMatch(required: readonly string[]): boolean {
  return required.length > 0 && required.every((pattern) => pattern.includes('*'))
}

/** Returns whether a user may bypass each of the rules. False if there are none. */
export function isBypassedBy(rules: readonly BranchRule[], userId: number): boolean {
  return rules.length > 0 && rules.every(({ bypass }) => bypass.some(({ id }) => id === userId))
}

/** Returns the rule without duplicates. @throws RuleViolation if it breaks a limit */
export function validateRule({ branchPattern, required, bypass }: BranchRule): BranchRule {
  if (branchPattern.startsWith('refs/heads/'))
    throw new RuleViolation(`branch pattern "${branchPattern}": leave out "refs/heads/"`)
  const rule = {
    branchPattern,
    required: [...new Set(required)],
    bypass: [...new Map(bypass.map((user) => [user.id, user])).values()],
  }
  // No name of a branch in the contract is longer.
  checkPattern('branch pattern', branchPattern, schemas.Branch)
  checkPatterns('required pattern', rule.required)
  if (rule.required.length === 0) throw new RuleViolation('a rule requires at least one pattern')
  if (isMetByFirstMatch(rule.required)) {
    const patterns = rule.required.map((pattern) => JSON.stringify(pattern)).join(', ')
    throw new RuleViolation(
      `all required patterns contain "*" (${patterns}): the first match meets them, whatever has not reported yet; ` +
        'also name a context exactly, such as the one that reports last',
    )
  }
  if (rule.bypass.length > MAX_BYPASSES)
    throw new RuleViolation(`${rule.bypass.length} users who may bypass; at most ${MAX_BYPASSES} are allowed`)
  return rule
}
