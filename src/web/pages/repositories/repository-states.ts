import type { PageOptions } from '../../layout/layout.ts'
import type { Condition } from './ranking.ts'

/** What a list of repositories counts and can be filtered by, the most urgent first. */
export const STATES = [
  { condition: 'broken', word: 'failing', icon: 'failure', symbol: '✗' },
  { condition: 'running', word: 'running', icon: 'pending', symbol: '●' },
  { condition: 'passing', word: 'passing', icon: 'success', symbol: '✓' },
] as const

export type StateCounts = readonly ((typeof STATES)[number] & { count: number })[]

/** Returns how many repositories are in each of the states. */
export function stateCounts(counts: Partial<Record<Condition, number>>): StateCounts {
  return STATES.map((state) => ({ ...state, count: counts[state.condition] ?? 0 }))
}

/** Returns the tab of a list of repositories: what is most urgent among them. */
export function tabOfStates(
  title: string,
  states: StateCounts,
): Pick<PageOptions, 'live'> & Partial<Pick<PageOptions, 'tab' | 'icon'>> {
  const live = { summary: states.map(({ count, word }) => `${count} ${word}`).join(', '), pending: false }
  const first = states.find(({ count }) => count > 0)
  if (!first) return { live }
  const { symbol, count, word, icon } = first
  return { live, tab: `${symbol} ${count} ${word} · ${title}`, icon: `/assets/icon-${icon}.svg` }
}
