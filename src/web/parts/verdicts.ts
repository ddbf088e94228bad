import type { BranchRule } from '../../domain/branch-rules.ts'
import { type BranchVerdict, branchVerdict, ruledBranches } from '../../domain/branch-verdicts.ts'
import type { ReportedContext } from '../../domain/verdict.ts'
import type { Refs } from '../../git/refs/read-refs.ts'
import type { Store } from '../../store/store.ts'
import { boundedMemoize } from '../../util/memoize.ts'
import { type Html, html } from './html.ts'
import { MET, stateBadge } from './state-summary.ts'
import { shownText } from './text.ts'

/** Verdicts that are spelled out on one page. */
const SHOWN = 5
/** More than a page has commits and branches. */
const COMMITS = 1_000

/**
 * What a page says about a commit and the branches with rules that it belongs to or may be pushed
 * to, the most important first.
 */
export interface Verdicts {
  verdicts: readonly BranchVerdict[]
  /** Branches whose verdicts are left out. */
  moreVerdicts: number
}

/**
 * Decides about the first few branches.
 *
 * @param branches with rules, as `ruledBranches` returns them
 * @param reported of the commit, ordered by the code points of `context`
 */
export function firstVerdicts(
  rules: readonly BranchRule[],
  branches: readonly string[],
  reported: readonly ReportedContext[],
): Verdicts {
  const shown = branches.slice(0, SHOWN)
  return {
    verdicts: shown.map((branch) => branchVerdict(rules, branch, reported)),
    moreVerdicts: branches.length - shown.length,
  }
}

/**
 * Returns functions that decide about commits of branches. A commit is pushed to its branch if that
 * has rules, otherwise to all branches with rules, the default branch first. Reports are read once.
 */
export function verdictsOf(
  { summaries }: Pick<Store, 'summaries'>,
  repositoryId: number,
  rules: readonly BranchRule[],
  { defaultBranch }: Pick<Refs, 'defaultBranch'>,
) {
  const targetsOf = boundedMemoize(COMMITS, (branch: string | null): string[] => {
    const targets = ruledBranches(rules, [branch, defaultBranch])
    // `ruledBranches` keeps the order, so the branch is first if it has rules.
    return targets[0] === branch ? targets.slice(0, 1) : targets
  })
  const reportsOf = boundedMemoize(COMMITS, (sha: string) => summaries.listStates({ repositoryId, sha }))

  return {
    /** Returns the most important verdict on a commit; undefined without rules. */
    async first(sha: string, branch: string | null): Promise<BranchVerdict | undefined> {
      const [target] = targetsOf(branch)
      return target === undefined ? undefined : branchVerdict(rules, target, await reportsOf(sha))
    },

    /** Returns the verdicts that a page spells out: none without a commit. */
    async shown(sha: string | undefined, branch: string | null): Promise<Verdicts> {
      const targets = targetsOf(branch)
      if (sha === undefined || targets.length === 0) return { verdicts: [], moreVerdicts: 0 }
      return firstVerdicts(rules, targets, await reportsOf(sha))
    },
  }
}

/** Renders whether a commit meets the rules of branches: a line for each. */
export function verdictLines({ verdicts, moreVerdicts: more }: Verdicts): Html {
  if (verdicts.length === 0) return html``
  return html`<ul class="verdicts" aria-label="Rules of branches">${verdicts.map(
    (verdict) => html`<li>${stateBadge(verdict.verdict)} <span>${verdictWords(verdict)}</span></li>`,
  )}${more > 0 ? html`<li class="faint">${more} more branches have rules.</li>` : ''}</ul>`
}

/** Renders a verdict: `main: lint has not reported`. */
export function verdictWords({ branch, reason }: BranchVerdict): Html {
  return html`<strong>${shownText(branch)}</strong>: ${reason === null ? MET : shownText(reason)}`
}
