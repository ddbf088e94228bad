import { rm } from 'node:fs/promises'
import type { Person } from '../domain/actors.ts'
import type { RepositoryName } from '../store/access/administration.ts'
import type { Transact } from '../store/audit/change.ts'
import type { Store } from '../store/store.ts'
import { isExpected } from '../util/expected-errors.ts'

type Removing = Pick<Store['repositories'], 'removeDeleted'>

/**
 * Deletes a repository with its statuses, and with its files unless it was imported.
 *
 * @returns why something of it is left, which the server removes; null if nothing is
 * @throws as `delete` of `createRepositoryStore`
 */
export async function deleteRepository(
  transact: Transact<Person>,
  { repositories }: { repositories: Removing & Pick<Store['repositories'], 'delete'> },
  repository: RepositoryName,
): Promise<Error | null> {
  const { id } = await transact((change) => repositories.delete(change, repository))
  return removeLeft(repositories, id)
}

/**
 * Removes what is left of all deleted repositories.
 *
 * @returns why something is left of some
 * @throws StoreUnavailable
 */
export async function removeDeletedRepositories({
  repositories,
}: Pick<Store, 'repositories'>): Promise<Error[]> {
  const problems: Error[] = []
  for (const id of await repositories.listDeleted()) {
    const problem = await removeLeft(repositories, id)
    if (problem) problems.push(problem)
  }
  return problems
}

async function removeLeft(repositories: Removing, id: number): Promise<Error | null> {
  try {
    await repositories.removeDeleted(id, (path) => rm(path, { recursive: true, force: true }))
    return null
  } catch (error) {
    if (isExpected(error)) return error
    throw error
  }
}
