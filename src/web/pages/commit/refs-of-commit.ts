import { setTimeout } from 'node:timers/promises'
import type { Ref, Refs } from '../../../git/refs/read-refs.ts'
import type { QueueClient } from '../../../schedule/fair-queue.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { ExpectedError, insteadOf } from '../../../util/expected-errors.ts'
import type { PageContext } from '../../routing/page-context.ts'

/** The branches and tags of a commit, among all of its repository. */
export interface CommitRefs {
  all: Refs
  /** The branches that contain it, the default branch first, then the newest ones. */
  branches: Ref[]
  /** The tags that point to it. */
  tags: Ref[]
}

/**
 * Milliseconds to wait for the branches with a commit. git goes on, and a later visit shows them.
 */
const TIME_LIMIT = 500

/** Finds the branches and tags of a commit. Throws as `CachedReads.get`. */
export async function findCommitRefs(
  { refs }: PageContext,
  repository: ReadableRepository,
  sha: string,
  client: QueueClient,
): Promise<CommitRefs> {
  const all = await refs.list(repository, client)
  // git may have lost the commit, or the repository may be unavailable.
  const currentBranches = refs.containing(repository, all, sha, client).catch(insteadOf(ExpectedError, null))
  const timeLimit = setTimeout(TIME_LIMIT, null, { ref: false })
  // The former branches, so that none vanishes from an open page after a push, while git is asked.
  const branches = (await Promise.race([currentBranches, timeLimit])) ?? refs.contained(repository, all, sha)

  const isDefault = ({ name }: Ref) => name === all.defaultBranch
  return {
    all,
    branches: [...branches.filter(isDefault), ...branches.filter((ref) => !isDefault(ref))],
    tags: all.tags.filter(({ sha: tip }) => tip === sha),
  }
}
