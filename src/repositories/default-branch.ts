import type { Person } from '../domain/actors.ts'
import { checkUnchanged, Refusal } from '../domain/refusal.ts'
import { openRepository } from '../git/opened-repository.ts'
import { setDefaultBranch, setFollowing } from '../git/refs/default-branch.ts'
import { readRef, readRefs } from '../git/refs/read-refs.ts'
import type { Transact } from '../store/audit/change.ts'
import type { Repository } from '../store/repositories/repositories.ts'
import type { Store } from '../store/store.ts'

/** Milliseconds that git may take. */
const GIT_TIMEOUT = 60_000
/** Branches named in an error message. */
const LISTED_BRANCHES = 10

/** A repository whose HEAD is set. */
type Headed = Pick<Repository, 'id' | 'owner' | 'name' | 'path' | 'managed' | 'ownerTrust'>

/**
 * Sets the branch that clones check out and pages show first.
 *
 * @param branch a valid name; one that does not exist is for a repository without branches
 * @param expected what it is before, as far as the caller knows, or an empty text; default:
 * anything
 * @throws Refusal if others exist, or it is something else; RepositoryUnavailable;
 * as `administeredRepository`
 */
export async function chooseDefaultBranch(
  transact: Transact<Person>,
  { repositories }: { repositories: Pick<Store['repositories'], 'recordDefaultBranch'> },
  repository: Headed,
  branch: string,
  expected?: string,
): Promise<void> {
  const { managed, owner, name } = repository
  const opened = await openRepository(repository)
  const ref = await readRef(opened, branch, GIT_TIMEOUT)
  const exists = ref?.kind === 'branch'
  const { branches, defaultBranch } = await readRefs(opened, { count: LISTED_BRANCHES, timeout: GIT_TIMEOUT })
  if (!exists && branches.length > 0) {
    const names = branches.map(({ name }) => name).join(', ')
    throw new Refusal(`${owner}/${name} has no branch "${branch}". Its newest branches: ${names}`)
  }
  if (branch !== defaultBranch) checkUnchanged('the default branch', defaultBranch ?? '', expected)
  // The first push may be one to another branch.
  await setDefaultBranch(opened, branch, managed && !exists, async (from, to) => {
    if (to === branch && to !== from) checkUnchanged('the default branch', from ?? '', expected)
    await transact((change) => repositories.recordDefaultBranch(change, repository, { from, to }))
  })
}

/** @throws Refusal for an imported repository, whose HEAD follows no pushes */
export function checkMayFollow({ managed, owner, name, path }: Headed): void {
  if (!managed)
    throw new Refusal(`${owner}/${name} was imported: its HEAD is for the owner of ${path} to set`)
}

/**
 * Sets whether HEAD leaves a branch that a push deletes, as a mirror needs it whose default branch is
 * renamed at the origin.
 *
 * @param expected whether it does before, as far as the caller knows; default: anything
 * @throws Refusal for an imported repository, or if it is something else; RepositoryUnavailable;
 * as `administeredRepository`
 */
export async function followPushes(
  transact: Transact<Person>,
  { repositories }: { repositories: Pick<Store['repositories'], 'recordFollowing'> },
  repository: Headed,
  follows: boolean,
  expected?: string,
): Promise<void> {
  checkMayFollow(repository)
  const opened = await openRepository(repository)
  await setFollowing(opened, follows, async (from, to) => {
    if (to === follows && to !== from) checkUnchanged('whether HEAD follows pushes', String(from), expected)
    await transact((change) => repositories.recordFollowing(change, repository, { from, to }))
  })
}
