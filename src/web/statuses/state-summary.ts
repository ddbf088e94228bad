import { COMBINED, combinedCounts, type StatusCounts, type StatusState } from '../../domain/states.ts'
import type { PageOptions } from '../layout/layout.ts'
import { type Html, html } from '../text/html.ts'

/** The state of a commit in a few words, for the browser's tab and screen readers. */
interface Summary {
  /** All counts, the most important first: `1 failed, 1 pending, 7 passed, 1 not reported`. */
  text: string
  /** The most important count with a symbol: `✗ 1 failed`, `● 7 passed, 1 not reported`. */
  short: string
  /** Path of an icon of the state. */
  icon: string
}

const SYMBOLS = { failure: '✗', pending: '●', success: '✓' } as const

/**
 * Summarizes the statuses of a commit. Each counts as in the combined state.
 *
 * @param missing number of required patterns that no context matches
 */
function summarize(reported: StatusCounts, missing: number): Summary {
  const { failure, pending, success } = combinedCounts(reported)
  const counts = [
    { state: 'failure', count: failure, word: 'failed' },
    { state: 'pending', count: pending, word: 'pending' },
    { state: 'success', count: success, word: 'passed' },
  ] as const
  const present = counts.filter(({ count }) => count > 0)
  const [first] = present
  const unreported = missing > 0 ? `, ${missing} not reported` : ''
  // As `stateBeside`.
  const shown = first?.state === 'success' && missing > 0 ? 'pending' : first?.state
  if (!first || !shown)
    return { text: `No status${unreported}`, short: 'no status', icon: '/assets/icon.svg' }
  return {
    text: present.map(({ count, word }) => `${count} ${word}`).join(', ') + unreported,
    short: `${SYMBOLS[shown]} ${first.count} ${first.word}${first.state === 'success' ? unreported : ''}`,
    icon: `/assets/icon-${shown}.svg`,
  }
}

/**
 * Returns the tab of a page about a commit.
 *
 * @param missing as `summarize`
 */
export function tabOf(
  title: string,
  counts: StatusCounts,
  missing: number,
): Pick<PageOptions, 'tab' | 'icon' | 'live'> {
  const { short, icon, text } = summarize(counts, missing)
  const pending = combinedCounts(counts).pending > 0 || missing > 0
  return { tab: `${short} · ${title}`, icon, live: { summary: text, pending } }
}

/**
 * Renders a state in a list as an icon, whose text is read and copied, or "no status". Success is quiet,
 * failure is loud.
 */
export function stateIcon(state: StatusState | null): Html {
  const combined = state && COMBINED[state]
  return html`<span class="icon ${combined ?? 'none'}${combined === state ? '' : ` ${state}`}">${state ?? 'no status'}</span>`
}

/** Renders a state, or "no status". Its color is the one of the combined state. */
export function stateBadge(state: StatusState | null): Html {
  return html`<span class="badge ${state ? COMBINED[state] : 'unreported'}">${state ?? 'no status'}</span>`
}
