import { BRANCHES, TAGS } from '../../domain/ref-names.ts'
import { type RefRule, refRuleMatcher } from '../../domain/ref-rules.ts'
import type { Obstacle } from '../../domain/ref-updates.ts'
import { replaceHidden } from '../../util/replace-characters.ts'
import { truncate } from '../../util/truncate.ts'

/** An update that a rule has refused. */
export interface RuledOut {
  /** The full name of the branch or tag with the rule. */
  ref: string
  obstacle: Obstacle
  /** The commit whose reports count. */
  sha: string
}

/** Maximum number of refs for which it is said what to do. */
const MAX_REFS = 3
const MAX_NAME = 100

/**
 * Returns lines for the people who pushed: what to do next about each refused ref, and the page to
 * look at.
 *
 * @param rules of the repository
 * @param url of the repository's page
 */
export function adviceOf(ruledOut: readonly RuledOut[], rules: readonly RefRule[], url: string): string[] {
  const lines = ruledOut.slice(0, MAX_REFS).flatMap(({ ref, obstacle, sha }) => {
    const name = nameOf(ref)
    const isDeletion = obstacle === 'branch deleted' || obstacle === 'tag deleted'
    const page = isDeletion ? `${url}/settings/checks` : `${url}/commits/${sha}`
    const step = `${name}: ${nextStep(ref, name, obstacle, rules)}`
    return obstacle === 'tag of no commit' ? [step] : [step, `  ${page}`]
  })
  return withMore(lines, ruledOut.length)
}

/**
 * Returns lines for people who may bypass the rules that their push does not meet: nobody else is told of it, and who may does
 * not know otherwise that a check was not met.
 */
export function bypassLines(bypassed: readonly { ref: string; reason: string }[]): string[] {
  const lines = bypassed
    .slice(0, MAX_REFS)
    .map(({ ref, reason }) => `${nameOf(ref)}: you may bypass its rule: ${reason}`)
  return withMore(lines, bypassed.length)
}

function withMore(lines: string[], total: number): string[] {
  const more = total - MAX_REFS
  return more > 0 ? [...lines, `And ${more} more.`] : lines
}

/** Returns what to call a branch or tag. */
function nameOf(ref: string): string {
  const folder = [BRANCHES, TAGS].find((folder) => ref.startsWith(folder)) ?? ''
  return truncate(replaceHidden(ref.slice(folder.length)), MAX_NAME)
}

function nextStep(ref: string, name: string, obstacle: Obstacle, rules: readonly RefRule[]): string {
  switch (obstacle) {
    case 'checks':
      if (ref.startsWith(TAGS)) return 'push the commit to a branch, and the tag when its checks have passed'
      return `push the commit to ${otherBranch(name, rules)}, and here when its checks have passed`
    case 'failed checks':
      return 'mend it in a new commit, or have the failed check run again'
    case 'branch forced':
      return 'merge or rebase onto the branch, and push without --force'
    case 'tag moved':
      return 'create a tag with another name'
    case 'tag of no commit':
      return 'create a tag of a commit'
    case 'branch deleted':
    case 'tag deleted':
      return 'an admin of the repository can remove the rule'
  }
}

/** Returns words for a branch that may be pushed to without checks, so that CI sees the commit. */
function otherBranch(name: string, rules: readonly RefRule[]): string {
  const rulesOf = refRuleMatcher(rules)
  const free = [`${name}-checks`, `checks-${name}`].find(
    (branch) => rulesOf(`${BRANCHES}${branch}`).length === 0,
  )
  return free === undefined ? 'a branch without rules' : `another branch, such as ${free}`
}
