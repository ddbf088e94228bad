import { type Result, resultsByOthers } from '../domain/reported-results.ts'
import type { Store } from '../store/store.ts'

/**
 * Returns what a reservation that was just set leaves as it is.
 *
 * @param commits full ids, see `listRuledCommits`
 * @returns the names of its users who cannot report, and the results of its contexts on the commits
 * that others reported; nothing if it is gone again
 * @throws StoreUnavailable
 */
export async function findRemaining(
  {
    reservations,
    statuses,
  }: {
    reservations: Pick<Store['reservations'], 'list' | 'listUnable'>
    statuses: Pick<Store['statuses'], 'listResults'>
  },
  repositoryId: number,
  pattern: string,
  commits: readonly string[],
): Promise<{ unable: string[]; results: Result[] }> {
  const reservation = (await reservations.list(repositoryId)).find((each) => each.pattern === pattern)
  if (!reservation) return { unable: [], results: [] }
  const names = reservation.users.map(({ name }) => name)
  return {
    unable: await reservations.listUnable(repositoryId, names),
    results: resultsByOthers(reservation, await statuses.listResults(repositoryId, commits)),
  }
}
