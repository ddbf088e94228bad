import type { BranchRule } from './branch-rules.ts'
import { patternMatcher } from './patterns.ts'

/** What the rules of a repository say about the contexts of a commit, on whichever branch. */
export interface RequiredContexts {
  /** The branch patterns of the rules that require a context, for each required context. */
  reported: Map<string, string[]>
  /** Each pattern that no context matches, with the branch patterns of its rules. */
  missing: Map<string, string[]>
}

/**
 * Finds the required contexts among those of a commit, and the required patterns that have not
 * reported. A commit belongs to no branch, so all rules of its repository count.
 *
 * @param rules as `store.rules.load` returns them
 */
export function requiredContexts(
  rules: readonly BranchRule[],
  contexts: readonly string[],
): RequiredContexts {
  const branchesOf = new Map<string, string[]>()
  for (const { branchPattern, required } of rules)
    for (const pattern of required) add(branchesOf, pattern, branchPattern)

  const reported = new Map<string, string[]>()
  const missing = new Map<string, string[]>()
  for (const [pattern, branchPatterns] of branchesOf) {
    const matching = contexts.filter(patternMatcher(pattern))
    if (matching.length === 0) missing.set(pattern, branchPatterns)
    for (const context of matching)
      for (const branchPattern of branchPatterns) add(reported, context, branchPattern)
  }
  return { reported, missing }
}

function add(branchesOf: Map<string, string[]>, name: string, branchPattern: string): void {
  const branches = branchesOf.get(name)
  if (branches === undefined) branchesOf.set(name, [branchPattern])
  else if (!branches.includes(branchPattern)) branches.push(branchPattern)
}
