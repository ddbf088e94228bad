import type { MatrixColumn } from '../store/check-matrix.ts'
import { COMBINED } from '../store/states.ts'

/**
 * Returns the oldest commit of the failures that lead up to now. Commits on which the check has not completed count neither
 * way.
 *
 * @returns `length` is the number of commits on which it failed; `neverPassed` is true if it passed on no commit before, so an older commit may have broken it
 */
export function failingSince({ cells }: Pick<MatrixColumn, 'cells'>): {
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
