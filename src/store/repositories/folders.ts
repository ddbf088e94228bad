import { constants } from 'node:fs'
import { access, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { emptyWhenMissing } from '../../util/missing.ts'
import type { Engine } from '../engine.ts'

/**
 * Whether git may run although other accounts can write the configuration of a repository:
 * `trusted` if the server created it, or if an administrator trusts them; `checked` if it is
 * checked before git starts; `exempt` if it was imported before there was a rule about them.
 */
export type OwnerTrust = 'trusted' | 'checked' | 'exempt'

/** Returns functions that read the server's own folder of repositories. */
export function createRepositoryFolders({ kysely }: Engine, folder: string) {
  return {
    /**
     * Makes sure that the server can create repositories, where it has created one before.
     *
     * @throws the system's error
     */
    async check(): Promise<void> {
      await access(folder, constants.W_OK | constants.X_OK).catch(emptyWhenMissing)
    },

    /**
     * Returns the folders in the server's own folder that belong to no repository, sorted, except
     * hidden ones and `lost+found`. The result may include a repository that is being created.
     */
    async orphaned(): Promise<string[]> {
      // Before reading the rows, so that a repository that is created meanwhile has its row.
      const entries = await readdir(folder, { withFileTypes: true }).catch(emptyWhenMissing)
      const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
      const rows = await kysely.selectFrom('repositories').select(['id', 'path']).execute()
      const taken = rows.map((row) => repositoryPath(folder, row))
      // Paths of imported repositories are stored with symbolic links resolved.
      const real = names.length > 0 ? await realpath(folder) : folder
      const isTaken = (name: string) =>
        [folder, real].some((parent) => taken.some((path) => `${path}/`.startsWith(`${join(parent, name)}/`)))
      return names
        .filter((name) => !name.startsWith('.') && name !== 'lost+found' && !isTaken(name))
        .map((name) => join(folder, name))
        .sort()
    },
  }
}

/**
 * Returns the folder of a repository, whether the server created it, and whether its owner is
 * trusted.
 */
export function locate(
  folder: string,
  row: { id: number; path: string | null; trust_owner: number | null },
): { path: string; managed: boolean; ownerTrust: OwnerTrust } {
  const managed = row.path === null
  return {
    path: repositoryPath(folder, row),
    managed,
    ownerTrust: managed ? 'trusted' : ownerTrustOf(row.trust_owner),
  }
}

/** Reads the column `trust_owner` of an imported repository. */
function ownerTrustOf(column: number | null): OwnerTrust {
  if (column === 1) return 'trusted'
  return column === 2 ? 'exempt' : 'checked'
}

/**
 * Returns the folder of a repository's files. Created ones are named by id, so that paths contain
 * no client input.
 */
function repositoryPath(folder: string, row: { id: number; path: string | null }): string {
  return row.path ?? join(folder, `${row.id}.git`)
}
