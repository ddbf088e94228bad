import { type BranchRule, requiredBy, rulesFor } from './branch-rules.ts'
import { matchesPattern } from './patterns.ts'
import { type ExplainedVerdict, explainVerdict } from './unmet-checks.ts'
import type { ReportedContext } from './verdict.ts'

/** Whether a commit may be pushed to a branch with rules. */
export interface BranchVerdict extends ExplainedVerdict {
  /** A branch, or the pattern of several. */
  branch: string
}

/**
 * Returns the branches with rules that a commit belongs to or may be pushed to: those of `names`
 * that have rules, then the pattern of each rule that applies to none of them, without duplicates.
 *
 * @param names of branches, the most important first
 */
export function ruledBranches(
  rules: readonly BranchRule[],
  names: readonly (string | null | undefined)[],
): string[] {
  const branches = [...new Set(names)]
    .filter((name) => typeof name === 'string')
    .filter((name) => rulesFor(rules, name).length > 0)
  const otherPatterns = rules
    .map(({ branchPattern }) => branchPattern)
    .filter((pattern) => !branches.some((name) => matchesPattern(pattern, name)))
  return [...branches, ...otherPatterns]
}

/**
 * Decides whether a commit may be pushed to a branch, as the server decides about a push.
 *
 * @param branch with rules, as `ruledBranches` returns it. A pattern stands for a branch to which
 *   no other rule applies.
 * @param reported of the commit, ordered by the code points of `context`
 */
export function branchVerdict(
  rules: readonly BranchRule[],
  branch: string,
  reported: readonly ReportedContext[],
): BranchVerdict {
  return { branch, ...explainVerdict(reported, requiredBy(rulesFor(rules, branch))) }
}
