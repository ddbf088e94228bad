import type { Ref } from '../../../git/refs/read-refs.ts'
import type { QueueClient } from '../../../schedule/fair-queue.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { CommitRefs } from './refs-of-commit.ts'

/**
 * The commits that a branch was at, the newest first. `branch` is null for those that lead to the
 * commit itself.
 */
export interface BranchHistory {
  branch: string | null
  shas: string[]
}

/**
 * Reads the histories that say since when checks of a commit fail: of the default branch unless it
 * contains the commit, then of the commit itself. Throws as `CachedReads.get`.
 */
export async function readHistories(
  { breakages }: PageContext,
  repository: ReadableRepository,
  sha: string,
  { all, branches }: CommitRefs,
  client: QueueClient,
): Promise<BranchHistory[]> {
  const isDefault = ({ name }: Ref) => name === all.defaultBranch
  const base = branches.some(isDefault) ? undefined : all.branches.find(isDefault)
  const tip = branches.find((ref) => ref.sha === sha) ?? null
  const own = breakages.commitsOf(repository, { branch: tip?.name ?? null, sha }, client)
  const histories: BranchHistory[] = [{ branch: null, shas: await own }]
  if (base)
    histories.unshift({
      branch: base.name,
      shas: await breakages.commitsOf(repository, { branch: base.name, sha: base.sha }, client),
    })
  return histories
}
