import { BRANCHES } from '../domain/ref-names.ts'
import { type RefRule, refRuleMatcher } from '../domain/ref-rules.ts'
import { GitFailed } from '../git/errors.ts'
import { type CommitLog, MAX_STARTS } from '../git/history/log.ts'
import type { RefLists } from '../git/history/ref-lists.ts'
import type { RepositoryFiles } from '../git/opened-repository.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import { insteadOf, Unavailable } from '../util/expected-errors.ts'

/** Branches that are looked at: the patterns of all rules are compared with each. */
const LOOKED_AT = 1_000

/**
 * Lists the newest commits of branches to which a rule applies, of at most `MAX_STARTS` branches.
 *
 * @returns full ids, as many as `CommitLog.ofBranches` returns; null if git cannot read them now
 * @throws the signal's reason
 */
export async function listRuledCommits(
  { refs, commitLog }: { refs: Pick<RefLists, 'list'>; commitLog: Pick<CommitLog, 'ofBranches'> },
  repository: RepositoryFiles,
  rules: readonly RefRule[],
  client: QueueClient,
): Promise<string[] | null> {
  if (rules.length === 0) return []
  const read = async () => {
    const { branches } = await refs.list(repository, client)
    const commits = await commitLog.ofBranches(repository, ruledTips(rules, branches), client)
    return commits.map(({ sha }) => sha)
  }
  return read().catch(insteadOf(GitFailed, null)).catch(insteadOf(Unavailable, null))
}

/** Returns the commits of branches to which a rule applies, each once. @param branches the newest first */
function ruledTips(rules: readonly RefRule[], branches: readonly { name: string; sha: string }[]): string[] {
  const rulesOf = refRuleMatcher(rules)
  const ruled = branches.slice(0, LOOKED_AT).filter(({ name }) => rulesOf(`${BRANCHES}${name}`).length > 0)
  return [...new Set(ruled.map(({ sha }) => sha))].slice(0, MAX_STARTS)
}
