import { BRANCHES, refsOfBranch, TAGS } from '../domain/ref-names.ts'
import type { RefRule } from '../domain/ref-rules.ts'
import { ServiceError } from '../errors.ts'
import type { BranchLists } from '../git/history/branch-lists.ts'
import type { FormerTips } from '../git/history/former-tips.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { Store } from '../store/store.ts'
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
  /** The commit after which to begin. Default: at the newest one. */
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

interface LastPassedParts {
  lists: BranchLists
  listTips: Store['listTips']
  formerTips: FormerTips
  decide: Decide
}

/**
 * Finds the newest commit of a branch whose required checks have passed, among the commits that the
 * branch was at: see `FormerTips`. So no commit of a merged branch is found. Today's rules count.
 *
 * @throws ServiceError if there is no such branch, no check is required, or the branch is not known
 * to have been at `after`; Unavailable; the signal's reason
 */
export async function findLastPassed(
  { lists, listTips, formerTips, decide }: LastPassedParts,
  repository: ReadableRepository,
  { branch: sentName, require = [], unless, rules, after }: LastPassedQuery,
  client: QueueClient,
): Promise<LastPassed> {
  const { branch, ref, tip } = await findTip(lists, repository, sentName, client)
  const hasPassed = ({ verdict, isPassedOver }: Decision) => verdict === 'success' && !isPassedOver
  const isLast = (decision: Decision) => hasPassed(decision) || decision.verdict === null
  const refs = refsOfBranch(sentName)
  const decideAll = (ids: readonly string[]) => {
    const candidates = ids.map((sha) => ({ sha, refs }))
    return decide(repository.id, candidates, { require, unless, rules, isLast }, client)
  }

  // Mostly the newest commit has passed: then nothing is asked about what was before.
  const [first] = after === undefined ? await decideAll([tip]) : []
  const isFound = first !== undefined && isLast(first)
  const history = isFound ? { ids: [tip], more: true } : await listHistory()
  const decisions = first ? [first] : []
  if (!isFound) decisions.push(...(await decideAll(history.ids.slice(decisions.length))))
  // Where nothing follows `after`, the newest commit says whether checks are required.
  const last = decisions.at(-1) ?? (await decideAll([tip]))[0]
  const sha = history.ids[decisions.length - 1] ?? null
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

  async function listHistory() {
    const tips = await listTips(repository.id, ref, tip, after === undefined ? 'newest' : 'all')
    const wanted = { after: after?.toLowerCase(), count: MAX_COMMITS }
    const history = await formerTips.list(repository, tips, wanted, client)
    if (history) return history
    throw new ServiceError(
      'commit_unknown',
      `after: ${JSON.stringify(branch)} is not known to have been at ${after}. Begin again without it.`,
    )
  }
}

/**
 * Finds the branch of a name, and then the one that the name means in full. `ref` is its full name,
 * decoded as Latin-1.
 */
async function findTip(
  lists: BranchLists,
  repository: ReadableRepository,
  sentName: string,
  client: QueueClient,
): Promise<{ branch: string; ref: string; tip: string }> {
  if (sentName.startsWith(TAGS))
    throw new ServiceError('field_invalid', `branch: ${JSON.stringify(sentName)} is a tag; name a branch`)
  for (const ref of refsOfBranch(sentName).reverse()) {
    const branch = ref.slice(BRANCHES.length)
    const tip = await lists.tipOf(repository, branch, client)
    if (tip !== null) return { branch, ref: Buffer.from(ref).toString('latin1'), tip }
  }
  throw new ServiceError(
    'branch_unknown',
    `The branch ${JSON.stringify(sentName)} does not exist in this repository.`,
  )
}
