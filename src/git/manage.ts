import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { checkUnchanged, Refusal } from '../domain/refusal.ts'
import { refMatcher } from '../domain/rule-patterns.ts'
import type { RepositoryName } from '../store/access/administration.ts'
import type { Person } from '../store/audit/audit.ts'
import type { Transact } from '../store/audit/change.ts'
import { StoreUnavailable } from '../store/engine.ts'
import type { UncheckedUpdate } from '../store/repositories/pushes.ts'
import type { NewRepository, Repository } from '../store/repositories/repositories.ts'
import type { Store } from '../store/store.ts'
import { publishAll, SyncedDraft } from '../util/durable.ts'
import { draftPath } from './leftovers.ts'
import { openRepository } from './opened-repository.ts'
import { guessChangedRefs } from './refs/changed-refs.ts'
import { setDefaultBranch, setFollowing } from './refs/default-branch.ts'
import { readRef, readRefs } from './refs/read-refs.ts'
import { createBareRepository } from './repository.ts'
import { decodeLatin1 } from './run-git.ts'

/** Milliseconds that git may take. */
const GIT_TIMEOUT = 60_000
/** Branches named in an error message. */
const LISTED_BRANCHES = 10

interface CreatingStore {
  repositories: Pick<Store['repositories'], 'createAll' | 'folder'>
  repositoryFolders: Pick<Store['repositoryFolders'], 'takePlaces'>
}

/**
 * Creates bare repositories, with their rows: all or none.
 *
 * ```
 *   ids are taken ──▶ files at their places, on disk ──▶ rows ── commit ──▶ created
 *                                                         └── refused ───▶ files are removed
 * ```
 *
 * So no row is without its repository on disk, and the database is not locked while git and the disk
 * work. Files of a killed process stay: `check` names them, and no repository gets their id.
 *
 * @throws as `createAll` of `createRepositoryStore`
 */
export async function createRepositories(
  transact: Transact<Person>,
  { repositories, repositoryFolders }: CreatingStore,
  wanted: readonly NewRepository[],
): Promise<Repository[]> {
  const places = await repositoryFolders.takePlaces(wanted.length)
  const placed = places.flatMap((place, index) => {
    const repository = wanted[index]
    return repository ? [{ ...repository, place }] : []
  })
  const paths = wanted.map(() => draftPath(repositories.folder))
  const drafts: { draft: SyncedDraft; place: string }[] = []
  try {
    for (const [index, { objectFormat, place }] of placed.entries()) {
      const path = paths[index] ?? ''
      await createBareRepository(path, objectFormat)
      drafts.push({ draft: await SyncedDraft.of(path), place: place.path })
    }
    await publishAll(drafts)
    return await transact((change) => repositories.createAll(change, placed))
  } catch (error) {
    // The rows may have been stored all the same if the connection broke. Folders without a row are
    // skipped.
    if (!(error instanceof StoreUnavailable))
      for (const { draft, place } of drafts)
        if (!existsSync(draft.path)) await rm(place, { recursive: true, force: true })
    throw error
  } finally {
    for (const path of paths) await rm(path, { recursive: true, force: true })
  }
}

/**
 * Deletes a repository with its statuses, and with its files unless it was imported.
 *
 * @throws as `delete` of `createRepositoryStore`; nothing once it is deleted: what could not be removed then is
 * removed by the server, see `removeDeletedRepositories`
 */
export async function deleteRepository(
  transact: Transact<Person>,
  { repositories }: { repositories: Pick<Store['repositories'], 'delete' | 'removeDeleted'> },
  repository: RepositoryName,
): Promise<void> {
  const { id } = await transact((change) => repositories.delete(change, repository))
  await repositories.removeDeleted(id, removeFiles).catch(() => {})
}

/** Removes what is left of all deleted repositories. @throws StoreUnavailable; the system's error */
export async function removeDeletedRepositories({
  repositories,
}: Pick<Store, 'repositories'>): Promise<void> {
  for (const id of await repositories.listDeleted()) await repositories.removeDeleted(id, removeFiles)
}

const removeFiles = (path: string) => rm(path, { recursive: true, force: true })

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
  repository: Pick<Repository, 'id' | 'owner' | 'name' | 'path' | 'managed' | 'ownerTrust'>,
  follows: boolean,
  expected?: string,
): Promise<void> {
  const { managed, owner, name } = repository
  if (!managed)
    throw new Refusal(`${owner}/${name} was imported: its HEAD is for the owner of ${repository.path} to set`)
  const opened = await openRepository(repository)
  await setFollowing(opened, follows, async (from, to) => {
    if (to === follows && to !== from) checkUnchanged('whether HEAD follows pushes', String(from), expected)
    await transact((change) => repositories.recordFollowing(change, repository, { from, to }))
  })
}

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
  const [matches, refsOf] = [refMatcher(refPattern), await guessChangedRefs(repository)]
  return updates
    .filter(({ ref }) => refsOf(ref).some(matches))
    .map(({ ref, user }) => ({ ref: decodeLatin1(ref), user }))
}

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
  repository: Pick<Repository, 'id' | 'owner' | 'name' | 'path' | 'managed' | 'ownerTrust'>,
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
