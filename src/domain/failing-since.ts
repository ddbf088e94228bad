import { COMBINED, type StatusState } from './states.ts'

/**
 * Returns the oldest commit of the failures that lead up to now. Commits on which the check has not
 * completed count neither way.
 *
 * @param cells the state of the check on each commit, the newest first; undefined where it has not
 *   reported
 * @returns `length` is the number of commits on which it failed; `neverPassed` is true if it passed
 *   on no commit before, so an older commit may have broken it
 */
export function failingSince(cells: readonly ({ state: StatusState } | undefined)[]): {
  first: number
  length: number
  neverPassed: boolean
} {
  let first = 0
  let length = 0
  for (const [index, cell] of cells.entries()) {
    if (cell === undefined || COMBINED[cell.state] === 'pending') continue
    if (COMBINED[cell.state] === 'success') return { first, length, neverPassed: false }
    first = index
    length++
  }
  return { first, length, neverPassed: true }
}
