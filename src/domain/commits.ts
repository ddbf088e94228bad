import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/objects/commit-lookup.ts'
import type { RepositoryAccess } from '../store/access.ts'
import type { Store } from '../store/store.ts'
import { commitIdLength, type ObjectFormat } from '../util/commit-id.ts'

/**
 * Returns the id in lower case, as it is stored.
 *
 * @throws ServiceError `field_invalid` unless it is a full id in the repository's object format
 */
export function fullCommitId(format: ObjectFormat, sha: string): string {
  const length = commitIdLength(format)
  if (!/^[0-9a-f]+$/i.test(sha)) throw new ServiceError('field_invalid', 'sha must consist of hex digits')
  if (sha.length === length) return sha.toLowerCase()
  throw new ServiceError(
    'field_invalid',
    `sha is ${sha.length} hex digits long; the commit ids of this repository have ${length}`,
  )
}

/**
 * Returns whether the commit has statuses or git has it. A commit with statuses stays known after git's garbage collection.
 *
 * @throws RepositoryUnavailable if the repository's files cannot be opened
 */
export async function commitExists(
  statuses: Store['statuses'],
  lookup: CommitLookup,
  repository: RepositoryAccess,
  sha: string,
): Promise<boolean> {
  return (await statuses.any(repository.id, sha)) || lookup.has(repository, sha)
}
