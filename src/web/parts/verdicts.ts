import type { BranchRule } from '../../domain/branch-rules.ts'
import { type BranchVerdict, branchVerdict, ruledBranches } from '../../domain/branch-verdicts.ts'
import type { Refs } from '../../git/history/refs.ts'
import type { Store } from '../../store/store.ts'
import { boundedMemoize } from '../../util/memoize.ts'
import { type Html, html } from './html.ts'
import { MET, stateBadge } from './state-summary.ts'
import { shownText } from './text.ts'

/** Verdicts that are spelled out on one page. */
const SHOWN = 5
/** More than a page has commits and branches. */
const COMMITS = 1_000

/** What a page says about a commit and the branches with rules that it belongs or may go to, the most important first. */
export interface Verdicts {
  verdicts: readonly BranchVerdict[]
  /** Branches whose verdicts are left out. */
  moreVerdicts: number
}

/** Decides about the first few of the branches. @param decide returns the verdict for a branch */
export async function firstVerdicts(
  branches: readonly string[],
  decide: (branch: string) => Promise<BranchVerdict>,
): Promise<Verdicts> {
  const shown = branches.slice(0, SHOWN)
  return { verdicts: await Promise.all(shown.map(decide)), moreVerdicts: branches.length - shown.length }
}

/**
 * Returns functions that decide about commits of branches. A commit is pushed to its branch if that has rules, otherwise to all
 * branches with rules, the default branch first. Nothing is read twice.
 */
export function verdictsOf(
  { summaries }: Pick<Store, 'summaries'>,
  repositoryId: number,
  rules: readonly BranchRule[],
  { defaultBranch }: Pick<Refs, 'defaultBranch'>,
) {
  const targetsOf = boundedMemoize(COMMITS, (branch: string | null): string[] => {
    const found = ruledBranches(rules, [branch, defaultBranch])
    return found[0] === branch ? found.slice(0, 1) : found
  })
  const decide = boundedMemoize(COMMITS, (target: string) =>
    boundedMemoize(COMMITS, async (sha: string) =>
      branchVerdict(rules, target, await summaries.listStates({ repositoryId, sha })),
    ),
  )
  return {
    /** Returns the most important verdict on a commit; undefined without rules. */
    async first(sha: string, branch: string | null): Promise<BranchVerdict | undefined> {
      const [target] = targetsOf(branch)
      return target === undefined ? undefined : decide(target)(sha)
    },
    /** Returns the verdicts that a page spells out: none without a commit. */
    async shown(sha: string | undefined, branch: string | null): Promise<Verdicts> {
      const branches = sha === undefined ? [] : targetsOf(branch)
      return firstVerdicts(branches, (target) => decide(target)(sha ?? ''))
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
