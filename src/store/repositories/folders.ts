import { constants, lstatSync } from 'node:fs'
import { access, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { Server } from '../../domain/actors.ts'
import { emptyWhenMissing, isMissing } from '../../util/expected-errors.ts'
import { chunksOf } from '../../util/lists.ts'
import type { Audit, Change } from '../audit/change.ts'
import { DELETED, isPresent } from '../deleted-repositories.ts'
import type { Reading } from '../engine.ts'
import { repositoryPath } from '../repository-files.ts'
import { INSERTED_ROWS } from '../steps.ts'
import { newId } from '../time.ts'

/** A row that nobody sees. */
const NOT_CREATED = {
  owner: DELETED,
  owner_key: DELETED,
  visibility: 'private',
  object_format: 'sha1',
  created_at: 0,
} as const

/** Where the server creates a repository. */
export interface Place {
  id: number
  path: string
}

/** Returns functions for the server's own folder of repositories. */
export function createRepositoryFolders({ kysely }: Reading, folder: string, audit: Audit) {
  return {
    /**
     * Returns places for new repositories, which nobody else gets. Folders that exist are skipped:
     * their content may still be needed. An interrupted creation leaves one behind, and so does
     * restoring a backup that is older than the repository.
     */
    async takePlaces(count: number): Promise<Place[]> {
      const places: Place[] = []
      while (places.length < count) {
        const missing = count - places.length
        const ids = await audit.transaction({ kind: 'server' }, (change) => takeIds(change, missing))
        const taken = ids.map((id) => ({ id, path: repositoryPath(folder, { id, path: null }) }))
        places.push(...taken.filter(({ path }) => !lstatSync(path, { throwIfNoEntry: false })))
      }
      return places
    },

    /**
     * Makes sure that the server can create repositories. Before the first one, the folder may be
     * missing.
     *
     * @throws the system's error; StoreUnavailable
     */
    async check(): Promise<void> {
      try {
        await access(folder, constants.W_OK | constants.X_OK)
      } catch (error) {
        if (!isMissing(error)) throw error
        const created = kysely.selectFrom('repositories').select('id').where('path', 'is', null)
        if (await created.where(isPresent).limit(1).executeTakeFirst()) throw error
      }
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

/** Takes ids that no repository gets by itself: each was that of a row. */
async function takeIds({ db }: Change<Server>, count: number): Promise<number[]> {
  const taken: number[] = []
  for (const names of chunksOf(Array.from({ length: count }, newId), INSERTED_ROWS)) {
    const rows = await db
      .insertInto('repositories')
      .values(names.map((name) => ({ ...NOT_CREATED, name, name_key: name })))
      .returning('id')
      .execute()
    const ids = rows.map(({ id }) => id)
    await db.deleteFrom('repositories').where('id', 'in', ids).execute()
    taken.push(...ids)
  }
  return taken
}
