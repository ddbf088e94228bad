import { setTimeout } from 'node:timers/promises'
import type { Ref, Refs } from '../../../git/refs/read-refs.ts'
import type { QueueClient } from '../../../schedule/fair-queue.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { ExpectedError, insteadOf } from '../../../util/expected-errors.ts'
import type { PageContext } from '../../parts/page-context.ts'

/** Where a commit is in its repository. */
export interface Places {
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

/** Finds the places of a commit. Throws as `CachedReads.get`. */
export async function findPlaces(
  { refs }: PageContext,
  repository: ReadableRepository,
  sha: string,
  client: QueueClient,
): Promise<Places> {
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
  { all, branches }: Places,
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
