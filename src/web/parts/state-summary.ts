import type { BranchVerdict } from '../../domain/branch-verdicts.ts'
import {
  COMBINED,
  type CombinedState,
  combinedCounts,
  type StatusCounts,
  type StatusState,
} from '../../domain/states.ts'
import { truncate } from '../../util/truncate.ts'
import { type Html, html } from './html.ts'
import type { PageOptions } from './layout.ts'
import { visibleText } from './text.ts'

/** The state of a commit in a few words, for its page, the browser's tab and screen readers. */
export interface Summary {
  state: CombinedState | null
  /** All counts, the most important first: `1 failed, 1 pending, 7 passed, 1 not reported`. */
  text: string
  /** The most important count with a symbol: `✗ 1 failed`, `✓ 7 passed, 1 not reported`. */
  short: string
  /** Path of an icon of the state. */
  icon: string
}

/** Says that no check is missing, of a commit that may be in the branch already. */
export const MET = 'meets the rules'
/** Code points of a verdict in a title. */
const TITLE = 80
const SYMBOLS = { failure: '✗', pending: '●', success: '✓' } as const

/**
 * Summarizes the statuses of a commit. Each counts as in the combined state.
 *
 * @param missing number of required patterns that no context matches. They do not change the
 *   combined state.
 */
export function summarize(reported: StatusCounts, missing: number): Summary {
  const { failure, pending, success } = combinedCounts(reported)
  const counts = [
    { state: 'failure', count: failure, word: 'failed' },
    { state: 'pending', count: pending, word: 'pending' },
    { state: 'success', count: success, word: 'passed' },
  ] as const
  const present = counts.filter(({ count }) => count > 0)
  const [first] = present
  const unreported = missing > 0 ? `, ${missing} not reported` : ''
  if (!first)
    return { state: null, text: `No status${unreported}`, short: 'no status', icon: '/assets/icon.svg' }
  return {
    state: first.state,
    text: present.map(({ count, word }) => `${count} ${word}`).join(', ') + unreported,
    short: `${SYMBOLS[first.state]} ${first.count} ${first.word}${first.state === 'success' ? unreported : ''}`,
    icon: `/assets/icon-${first.state}.svg`,
  }
}

/** Returns the summary with the verdict first. Without one, the combined state is the verdict. */
function withVerdict(summary: Summary, verdict: BranchVerdict | undefined): Summary {
  if (!verdict) return summary
  const words = visibleText(`${verdict.branch}: ${verdict.reason ?? MET}`)
  return {
    state: verdict.verdict,
    text: `${words}. ${summary.text}`,
    short: `${SYMBOLS[verdict.verdict]} ${truncate(words, TITLE)}`,
    icon: `/assets/icon-${verdict.verdict}.svg`,
  }
}

/**
 * Returns the tab of a page about a commit.
 *
 * @param verdicts the most important first
 * @param missing as `summarize`
 */
export function tabOf(
  title: string,
  counts: StatusCounts,
  verdicts: readonly BranchVerdict[],
  missing = 0,
): Pick<PageOptions, 'tab' | 'icon' | 'live'> {
  const { short, icon, text } = withVerdict(summarize(counts, missing), verdicts[0])
  const isPending =
    combinedCounts(counts).pending > 0 || missing > 0 || verdicts.some(({ verdict }) => verdict === 'pending')
  return { tab: `${short} · ${title}`, icon, live: { summary: text, pending: isPending } }
}

/** Renders a state, or "no status". Its color is the one of the combined state. */
export function stateBadge(state: StatusState | null): Html {
  return html`<span class="badge ${state ? COMBINED[state] : 'unreported'}">${state ?? 'no status'}</span>`
}
