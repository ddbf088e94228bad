import type { CommitLookup } from '../git/objects/commit-lookup.ts'
import type { LookupRepository } from '../git/objects/lookup-queue.ts'
import type { Store } from '../store/store.ts'

/** Returns whether git has a commit, or statuses of it keep it known after a garbage collection. */
export async function commitExists(
  statuses: Pick<Store['statuses'], 'hasAny'>,
  lookup: CommitLookup,
  repository: LookupRepository,
  sha: string,
): Promise<boolean> {
  return (await statuses.hasAny(repository.id, sha)) || lookup.has(repository, sha)
}
