import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import { commitIdLength } from '../git/repository.ts'
import type { RepositoryAccess } from '../store/access.ts'
import type { Store } from '../store/store.ts'

/** Which commits a repository holds. */
export function commitsOf(statuses: Store['statuses'], lookup: CommitLookup) {
  return {
    /**
     * The id as it is stored: lower case.
     *
     * @throws ServiceError `field_invalid` when it is no full id in the repository's object format
     */
    fullId(repository: RepositoryAccess, sha: string): string {
      const length = commitIdLength(repository.objectFormat)
      if (!/^[0-9a-f]+$/i.test(sha)) throw new ServiceError('field_invalid', 'sha must consist of hex digits')
      if (sha.length === length) return sha.toLowerCase()
      throw new ServiceError(
        'field_invalid',
        `sha is ${sha.length} hex digits long; the commit ids of this repository have ${length}`,
      )
    },

    /**
     * Whether the commit is in the repository: something has been reported on it, or git has it. A commit once
     * reported on stays known after git's garbage collection.
     *
     * @throws RepositoryUnavailable when the repository's files cannot be opened
     */
    async has(repository: RepositoryAccess, sha: string): Promise<boolean> {
      const known = await statuses.any(repository.id, sha)
      return known || lookup.has(repository, sha)
    },

    /** Whether git has the commit, where it is known that nothing has been reported on it. */
    inGit(repository: RepositoryAccess, sha: string): Promise<boolean> {
      return lookup.has(repository, sha)
    },
  }
}
