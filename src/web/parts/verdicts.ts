import type { AppliedRule } from '../../domain/branch-rules.ts'
import { type BranchVerdict, branchVerdict, ruledBranches } from '../../domain/branch-verdicts.ts'
import type { Refs } from '../../git/history/refs.ts'
import type { Store } from '../../store/store.ts'
import { type Html, html } from './html.ts'
import { MET, stateBadge } from './state-summary.ts'
import { shownText } from './text.ts'

/** Verdicts that are spelled out on one page. */
export const VERDICTS = 5

/** A commit, and a branch with rules that it belongs or may go to; undefined if there is none. */
interface Question {
  sha: string
  branch: string | undefined
}

/** Returns the verdict that was read; undefined if it was not asked for. */
export type Verdicts = (sha: string, branch: string | undefined) => BranchVerdict | undefined

/**
 * Returns the branches with rules to which the commits of a branch are pushed: itself or, if it has no rules, all others, the
 * default branch first.
 */
export function targetsOf(
  rules: readonly AppliedRule[],
  branch: string | null,
  { defaultBranch }: Pick<Refs, 'defaultBranch'>,
): string[] {
  const targets = ruledBranches(rules, [branch, defaultBranch])
  return targets[0] === branch ? targets.slice(0, 1) : targets
}

/** Reads the verdicts of commits. @param rules of the repository */
export async function readVerdicts(
  { summaries }: Pick<Store, 'summaries'>,
  repositoryId: number,
  rules: readonly AppliedRule[],
  questions: readonly Question[],
): Promise<Verdicts> {
  const asked = new Map(questions.map(({ sha, branch }) => [`${sha} ${branch}`, { sha, branch }]))
  const found = [...asked].map(async ([key, { sha, branch }]) => {
    if (branch === undefined) return [key, undefined] as const
    return [key, await branchVerdict(rules, branch, await summaries.states({ repositoryId, sha }))] as const
  })
  const verdicts = new Map(await Promise.all(found))
  return (sha, branch) => verdicts.get(`${sha} ${branch}`)
}

/** Renders whether a commit meets the rules of branches: a line for each. @param more branches that are left out */
export function verdictLines(verdicts: readonly BranchVerdict[], more: number): Html {
  return html`<ul class="verdicts" aria-label="Rules of branches">${verdicts.map(
    (verdict) => html`<li>${stateBadge(verdict.verdict)} <span>${verdictWords(verdict)}</span></li>`,
  )}${more > 0 ? html`<li class="faint">${more} more branches have rules.</li>` : ''}</ul>`
}

/** Renders a verdict: `main: lint has not reported`. */
export function verdictWords({ branch, reason }: BranchVerdict): Html {
  return html`<strong>${shownText(branch)}</strong>: ${reason === null ? MET : shownText(reason)}`
}
