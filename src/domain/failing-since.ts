import { COMBINED, type StatusState } from './states.ts'

/** The failures of a check that lead up to now. */
export interface FailingSince {
  /** Index of the oldest commit on which it failed. */
  first: number
  /** Number of commits on which it failed; 0 if it does not fail now. */
  length: number
  /** Index of the newest commit on which it passed; null if it passed on none of them. */
  lastPassed: number | null
}

/**
 * Finds since which commit a check fails. Commits on which it has not completed count neither way. An
 * `error` counts only as the newest result: a run that was cancelled says nothing about a commit.
 *
 * @param cells the state of the check on each commit of a branch, the newest first; undefined where
 *   it has not reported
 * @param hasNewest whether there are newer results than these
 */
export function failingSince(
  cells: readonly ({ state: StatusState } | undefined)[],
  hasNewest = false,
): FailingSince {
  let [first, length] = [0, 0]
  let isNewest = !hasNewest
  for (const [index, cell] of cells.entries()) {
    if (cell === undefined || COMBINED[cell.state] === 'pending') continue
    if (COMBINED[cell.state] === 'success') return { first, length, lastPassed: index }
    if (cell.state === 'error' && !isNewest) continue
    isNewest = false
    first = index
    length++
  }
  return { first, length, lastPassed: null }
}
