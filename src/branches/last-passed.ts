import { BRANCHES, refsOfBranch, TAGS } from '../domain/ref-names.ts'
import type { RefRule } from '../domain/ref-rules.ts'
import { ServiceError } from '../errors.ts'
import type { BranchLists } from '../git/history/branch-lists.ts'
import type { GitClient } from '../git/history/cached-reads.ts'
import type { FirstParents } from '../git/history/first-parents.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { Decide, Decision } from './decisions.ts'

/** Commits that are decided for one question. */
const MAX_COMMITS = 300

export interface LastPassedQuery {
  /** Name of a branch, with or without `refs/heads/`. */
  branch: string
  /** Patterns of checks that are required beside those of rules. */
  require?: readonly string[]
  /** The exact name of a context. Commits that failed it are passed over. */
  unless?: string
  /** Rules that count instead of those of the repository. */
  rules?: readonly RefRule[]
  /** The commit after which to begin, in the order of first parents. Default: at the newest one. */
  after?: string
}

/** The newest commit of a branch that passed, among those looked at. */
export interface LastPassed {
  /** Without `refs/heads/`. */
  branch: string
  commit: (Decision & { sha: string }) | null
  lookedAt: number
  /** The last commit that was looked at, if none passed and there are more. */
  next: string | null
}

/**
 * Finds the newest commit of a branch whose required checks have passed, among the commits that the
 * branch was at: by first parents, so that no commit of a merged branch is found. Today's rules
 * count.
 *
 * @throws ServiceError if there is no such branch, no check is required, or `after` is not among
 * the first parents of the branch; Unavailable; the signal's reason
 */
export async function findLastPassed(
  { lists, firstParents, decide }: { lists: BranchLists; firstParents: FirstParents; decide: Decide },
  repository: ReadableRepository,
  { branch: sentName, require = [], unless, rules, after }: LastPassedQuery,
  client: GitClient,
): Promise<LastPassed> {
  const { branch, tip } = await findTip(lists, repository, sentName, client)
  const wanted = { after: after?.toLowerCase(), count: MAX_COMMITS }
  const history = await firstParents.list(repository, tip, wanted, client)
  if (history === null)
    throw new ServiceError(
      'commit_unknown',
      `after: ${after} is not among the first parents of ${JSON.stringify(branch)}. Begin again without it.`,
    )

  const refs = refsOfBranch(sentName)
  const candidates = history.ids.map((sha) => ({ sha, refs }))
  const hasPassed = ({ verdict, isPassedOver }: Decision) => verdict === 'success' && !isPassedOver
  const isLast = (decision: Decision) => hasPassed(decision) || decision.verdict === null
  const decisions = await decide(repository.id, candidates, { require, unless, rules, isLast }, client)
  const last = decisions.at(-1)
  const sha = candidates[decisions.length - 1]?.sha ?? null
  if (last?.verdict === null)
    throw new ServiceError(
      'field_invalid',
      require.length > 0
        ? 'require: all patterns contain "*", so the first report would meet them; ' +
            'name at least one check exactly, such as the one that reports last'
        : `branch: no checks are required for ${JSON.stringify(branch)}; ` +
            'set a rule that matches it, or name checks with "require"',
    )
  const commit = last && sha !== null && hasPassed(last) ? { sha, ...last } : null
  return { branch, commit, lookedAt: decisions.length, next: commit === null && history.more ? sha : null }
}

/** Finds the branch of a name, and then the one that the name means in full. */
async function findTip(
  lists: BranchLists,
  repository: ReadableRepository,
  sentName: string,
  client: GitClient,
): Promise<{ branch: string; tip: string }> {
  if (sentName.startsWith(TAGS))
    throw new ServiceError('field_invalid', `branch: ${JSON.stringify(sentName)} is a tag; name a branch`)
  for (const ref of refsOfBranch(sentName).reverse()) {
    const branch = ref.slice(BRANCHES.length)
    const tip = await lists.tipOf(repository, branch, client)
    if (tip !== null) return { branch, tip }
  }
  throw new ServiceError(
    'branch_unknown',
    `The branch ${JSON.stringify(sentName)} does not exist in this repository.`,
  )
}
