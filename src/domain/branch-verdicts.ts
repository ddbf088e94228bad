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
 * Returns the branches with rules that a commit belongs or may go to: those of `names` that have rules, then the pattern of
 * each rule that applies to none of them. No two lead to the same rules by the same name.
 *
 * @param names of branches, the most important first
 */
export function ruledBranches(
  rules: readonly BranchRule[],
  names: readonly (string | null | undefined)[],
): string[] {
  const named = names.filter((name) => typeof name === 'string' && rulesFor(rules, name).length > 0)
  const known = [...new Set(named)].filter((name) => typeof name === 'string')
  const others = rules.filter(
    ({ branchPattern }) => !known.some((name) => matchesPattern(branchPattern, name)),
  )
  return [...known, ...others.map(({ branchPattern }) => branchPattern)]
}

/**
 * Decides whether a commit may be pushed to a branch, as the server decides about a push.
 *
 * @param branch with rules, as `ruledBranches` returns it: a pattern stands for a branch to which no other rule applies
 * @param reported of the commit, ordered by the code points of `context`
 */
export async function branchVerdict(
  rules: readonly BranchRule[],
  branch: string,
  reported: readonly ReportedContext[],
): Promise<BranchVerdict> {
  return { branch, ...(await explainVerdict(reported, requiredBy(rulesFor(rules, branch)))) }
}
