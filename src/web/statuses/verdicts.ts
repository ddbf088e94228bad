import { BRANCHES, TAGS } from '../../domain/ref-names.ts'
import { type RefRule, refRuleMatcher, requiredBy, rulesOfRef } from '../../domain/ref-rules.ts'
import { type ExplainedVerdict, explainVerdict, type ReportedContext } from '../../domain/verdict.ts'
import type { RefLists } from '../../git/history/ref-lists.ts'
import type { RepositoryFiles } from '../../git/opened-repository.ts'
import type { Ref, Refs } from '../../git/refs/read-refs.ts'
import type { CommitKey } from '../../store/statuses/statuses.ts'
import type { PageStore } from '../routing/page-store.ts'
import { branchOf } from '../text/repository-paths.ts'

/** Verdicts that are spelled out on one page, and branches that are compared with rules. */
const SHOWN = 5
const NAMES = 20

/** Whether a branch or tag with rules may name a commit. */
export interface BranchVerdict extends ExplainedVerdict {
  /** A tag is named in full. */
  branch: string
}

/**
 * Decides, as for a push, whether a commit may be the tip of its own branches and of the default
 * branch, and whether its tags may be created. Refs without rules have no verdict. Nor have branches
 * that contain the commit and have moved on: a rule says nothing about what was pushed before.
 *
 * @param refs branches that contain the commit and tags that name it, the most important first
 * @param reported of the commit, ordered by the code points of `context`
 */
export function verdictsOn(
  sha: string,
  rules: readonly RefRule[],
  refs: readonly Ref[],
  { defaultBranch }: Pick<Refs, 'defaultBranch'>,
  reported: readonly ReportedContext[],
): BranchVerdict[] {
  const rulesOf = refRuleMatcher(rules)
  const fullName = ({ kind, name }: Pick<Ref, 'kind' | 'name'>) => (kind === 'tag' ? TAGS : BRANCHES) + name
  const isPast = (ref: string) => refs.some((other) => other.sha !== sha && fullName(other) === ref)
  const [branches, tags] = [
    refs.filter(({ kind }) => kind === 'branch').slice(0, NAMES),
    refs.filter(({ kind }) => kind === 'tag').slice(0, NAMES),
  ]
  const names = [
    ...branches.map(fullName),
    ...(defaultBranch ? [`${BRANCHES}${defaultBranch}`] : []),
    ...tags.map(fullName),
  ]
  return [...new Set(names)]
    .filter((ref) => rulesOf(ref).length > 0 && !isPast(ref))
    .slice(0, SHOWN)
    .map((ref) => ({
      branch: ref.startsWith(BRANCHES) ? ref.slice(BRANCHES.length) : ref,
      ...explainVerdict(reported, requiredBy(rulesOf(ref))),
    }))
}

/**
 * Decides about the newest commit of a branch, or about the commit of a tag.
 *
 * @param lists says without asking git whether the default branch has moved on from the commit
 */
export function tipVerdicts(
  lists: RefLists,
  repository: RepositoryFiles,
  refs: Refs,
  ref: Ref | null,
  rules: readonly RefRule[],
  reported: readonly ReportedContext[],
): BranchVerdict[] {
  if (ref?.kind === 'tag') return verdictsOn(ref.sha, rules, [ref], { defaultBranch: null }, reported)
  if (ref === null || branchOf(ref) === null) return []
  const past = lists.movedOn(repository, refs, ref.sha)
  return verdictsOn(ref.sha, rules, past ? [ref, past] : [ref], refs, reported)
}

/**
 * Decides about the commit of a repository's HEAD. Returns undefined if its branch has no rules.
 *
 * @param branch null if HEAD leads to none
 */
export async function headVerdict(
  { rules, summaries }: Pick<PageStore, 'rules'> & { summaries: Pick<PageStore['summaries'], 'listStates'> },
  commit: CommitKey,
  branch: string | null,
): Promise<BranchVerdict | undefined> {
  const loaded = await rules.load(commit.repositoryId)
  if (branch === null || rulesOfRef(loaded, `${BRANCHES}${branch}`).length === 0) return undefined
  const reported = await summaries.listStates(commit)
  return verdictsOn(commit.sha, loaded, [], { defaultBranch: branch }, reported)[0]
}

/** Returns the contexts that verdicts depend on, and the patterns that none of them matches. */
export function requiredContexts(verdicts: readonly BranchVerdict[]) {
  const required = verdicts.flatMap((verdict) => verdict.required)
  return {
    reported: new Set(required.flatMap(({ contexts }) => contexts)),
    missing: new Set(required.filter(({ state }) => state === null).map(({ pattern }) => pattern)),
  }
}
