import { BRANCHES } from '../domain/ref-names.ts'
import { type RefRule, refRuleMatcher } from '../domain/ref-rules.ts'
import { MAX_STARTS } from '../git/history/log.ts'

/** Branches that are looked at: the patterns of all rules are compared with each. */
const LOOKED_AT = 1_000

/**
 * Returns the commits of branches to which a rule applies, each once; at most `MAX_STARTS`.
 *
 * @param branches the newest first
 */
export function ruledTips(
  rules: readonly RefRule[],
  branches: readonly { name: string; sha: string }[],
): string[] {
  const rulesOf = refRuleMatcher(rules)
  const ruled = branches.slice(0, LOOKED_AT).filter(({ name }) => rulesOf(`${BRANCHES}${name}`).length > 0)
  return [...new Set(ruled.map(({ sha }) => sha))].slice(0, MAX_STARTS)
}
