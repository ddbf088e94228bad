import { type BranchRule, requiredBy, ruleMatcher } from '../../domain/branch-rules.ts'
import { type ExplainedVerdict, explainVerdict, type ReportedContext } from '../../domain/verdict.ts'
import type { RefLists } from '../../git/history/ref-lists.ts'
import type { RepositoryFiles } from '../../git/opened-repository.ts'
import type { Ref, Refs } from '../../git/refs/read-refs.ts'
import { type Html, html } from '../parts/html.ts'
import { branchOf } from '../parts/ref-chooser.ts'
import { shownText } from '../parts/text.ts'

/** Verdicts that are spelled out on one page, and branches that are compared with rules. */
const SHOWN = 5
const NAMES = 20

/** Whether a commit may be pushed to a branch with rules. */
export interface BranchVerdict extends ExplainedVerdict {
  branch: string
}

/**
 * Decides, as for a push, whether a commit may be the tip of its own branches and of the default
 * branch. Branches without rules have no verdict. Nor have those that contain the commit and have
 * moved on: a rule says nothing about what was pushed before.
 *
 * @param branches that contain the commit, the most important first
 * @param reported of the commit, ordered by the code points of `context`
 */
export function verdictsOn(
  sha: string,
  rules: readonly BranchRule[],
  branches: readonly Ref[],
  { defaultBranch }: Pick<Refs, 'defaultBranch'>,
  reported: readonly ReportedContext[],
): BranchVerdict[] {
  const rulesOf = ruleMatcher(rules)
  const isPast = (name: string) => branches.some((branch) => branch.name === name && branch.sha !== sha)
  const names = [
    ...branches.slice(0, NAMES).map(({ name }) => name),
    ...(defaultBranch ? [defaultBranch] : []),
  ]
  return [...new Set(names)]
    .filter((name) => rulesOf(name).length > 0 && !isPast(name))
    .slice(0, SHOWN)
    .map((branch) => ({ branch, ...explainVerdict(reported, requiredBy(rulesOf(branch))) }))
}

/**
 * Decides about the newest commit of a branch. Tags have no verdict: what they name is past.
 *
 * @param lists says without asking git whether the default branch contains the commit
 */
export function tipVerdicts(
  lists: RefLists,
  repository: RepositoryFiles,
  refs: Refs,
  ref: Ref | null,
  rules: readonly BranchRule[],
  reported: readonly ReportedContext[],
): BranchVerdict[] {
  if (ref === null || branchOf(ref) === null) return []
  const isDefault = ({ name }: Ref) => name === refs.defaultBranch
  const contained = lists.contained(repository, refs, ref.sha).filter(isDefault)
  return verdictsOn(ref.sha, rules, [ref, ...contained], refs, reported)
}

/** Returns the contexts that verdicts depend on, and the patterns that none of them matches. */
export function requiredContexts(verdicts: readonly BranchVerdict[]) {
  const required = verdicts.flatMap((verdict) => verdict.required)
  return {
    reported: new Set(required.flatMap(({ contexts }) => contexts)),
    missing: new Set(required.filter(({ state }) => state === null).map(({ pattern }) => pattern)),
  }
}

/** Renders whether a commit meets the rules of branches: a line for each. */
export function verdictLines(verdicts: readonly BranchVerdict[]): Html | string {
  if (verdicts.length === 0) return ''
  return html`<ul class="verdicts" aria-label="Rules of branches">${verdicts.map(
    (verdict) => html`<li>${verdictWords(verdict)}</li>`,
  )}</ul>`
}

/** Renders a verdict: `main: lint has not reported`. */
export function verdictWords({ branch, reason }: BranchVerdict): Html {
  return html`<strong>${shownText(branch)}</strong>: ${reason === null ? 'meets the rules' : shownText(reason)}`
}
