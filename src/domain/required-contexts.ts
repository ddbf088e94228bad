import type { AppliedRule } from '../store/rules.ts'
import { patternMatcher } from '../util/pattern.ts'

/** What the rules of a repository say about the contexts of one commit, whichever branch it may get to. */
export interface RequiredContexts {
  /** The branch patterns of the rules that require a context, for each context that any rule requires. */
  reported: Map<string, string[]>
  /** Each pattern that no context matches, with the branch patterns of the rules that require it. */
  missing: Map<string, string[]>
}

/**
 * Finds the required contexts among those of a commit, and the required patterns that have not reported. A commit belongs to no
 * branch, so all rules of its repository count.
 *
 * @param rules as `store.rules.load` returns them
 */
export function requiredContexts(
  rules: readonly AppliedRule[],
  contexts: readonly string[],
): RequiredContexts {
  const found: RequiredContexts = { reported: new Map(), missing: new Map() }
  const add = (branches: Map<string, string[]>, name: string, branchPattern: string) =>
    branches.set(name, [...new Set([...(branches.get(name) ?? []), branchPattern])])
  for (const { branchPattern, required } of rules) {
    for (const pattern of required) {
      const matching = contexts.filter(patternMatcher(pattern))
      for (const context of matching) add(found.reported, context, branchPattern)
      if (matching.length === 0) add(found.missing, pattern, branchPattern)
    }
  }
  return found
}
