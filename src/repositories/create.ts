import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Person } from '../domain/actors.ts'
import { draftPath } from '../git/leftovers.ts'
import { createBareRepository } from '../git/repository.ts'
import type { Transact } from '../store/audit/change.ts'
import { StoreUnavailable } from '../store/engine.ts'
import type { NewRepository, Repository } from '../store/repositories/repositories.ts'
import type { Store } from '../store/store.ts'
import { publishAll, SyncedDraft } from '../util/durable.ts'

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
