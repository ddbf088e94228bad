import { rm } from 'node:fs/promises'
import type { Person } from '../domain/actors.ts'
import type { RepositoryName } from '../store/access/administration.ts'
import type { Transact } from '../store/audit/change.ts'
import type { Store } from '../store/store.ts'

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
