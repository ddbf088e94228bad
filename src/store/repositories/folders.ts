import { constants } from 'node:fs'
import { access, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { emptyWhenMissing } from '../../errors.ts'
import type { Reading } from '../engine.ts'
import { repositoryPath } from '../repository-files.ts'

/** Returns functions that read the server's own folder of repositories. */
export function createRepositoryFolders({ kysely }: Reading, folder: string) {
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
      const paths = rows.map((row) => repositoryPath(folder, row))
      // Paths of imported repositories are stored with symbolic links resolved.
      const real = names.length > 0 ? await realpath(folder) : folder
      const isTaken = (name: string) =>
        [folder, real].some((parent) => paths.some((path) => `${path}/`.startsWith(`${join(parent, name)}/`)))
      return names
        .filter((name) => !name.startsWith('.') && name !== 'lost+found' && !isTaken(name))
        .map((name) => join(folder, name))
        .sort()
    },
  }
}
