import { refMatcher } from '../domain/rule-patterns.ts'
import { guessChangedRefs } from '../git/refs/symbolic-refs.ts'
import { decodeLatin1 } from '../git/run-git.ts'
import type { UncheckedUpdate } from '../store/repositories/pushes.ts'
import type { Repository } from '../store/repositories/repositories.ts'
import type { Store } from '../store/store.ts'

/**
 * Returns the refs matching a rule that was just set which pushes under way may update without its
 * checks, since the repository had no rules when they began.
 *
 * @throws StoreUnavailable
 */
export async function findUnchecked(
  { pushes }: { pushes: Pick<Store['pushes'], 'listUnchecked'> },
  repository: Pick<Repository, 'id' | 'path' | 'ownerTrust'>,
  refPattern: string,
): Promise<UncheckedUpdate[]> {
  const updates = await pushes.listUnchecked(repository.id)
  if (updates.length === 0) return []
  const [matches, changedRefs] = [refMatcher(refPattern), await guessChangedRefs(repository)]
  return updates
    .filter(({ ref }) => changedRefs(ref).some(matches))
    .map(({ ref, user }) => ({ ref: decodeLatin1(ref), user }))
}
