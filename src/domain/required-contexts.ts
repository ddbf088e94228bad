import { runInSlices } from '../util/run-in-slices.ts'
import type { BranchRule } from './branch-rules.ts'
import { patternMatcher } from './patterns.ts'

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
export async function requiredContexts(
  rules: readonly BranchRule[],
  contexts: readonly string[],
): Promise<RequiredContexts> {
  const branches = new Map<string, string[]>()
  for (const { branchPattern, required } of rules)
    for (const pattern of required) add(branches, pattern, branchPattern)
  const found: RequiredContexts = { reported: new Map(), missing: new Map() }
  if (branches.size === 0) return found
  const patterns = branches.entries()
  // There may be thousands of patterns and of contexts.
  await runInSlices(() => {
    const { value, done } = patterns.next()
    if (done) return false
    const [pattern, branchPatterns] = value
    const matching = contexts.filter(patternMatcher(pattern))
    if (matching.length === 0) found.missing.set(pattern, branchPatterns)
    for (const context of matching)
      for (const branchPattern of branchPatterns) add(found.reported, context, branchPattern)
    return true
  })
  return found
}

function add(branches: Map<string, string[]>, name: string, branchPattern: string): void {
  const known = branches.get(name)
  if (known === undefined) branches.set(name, [branchPattern])
  else if (!known.includes(branchPattern)) known.push(branchPattern)
}
