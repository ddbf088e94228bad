import { constants, lstatSync } from 'node:fs'
import { access, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { Selectable } from 'kysely'
import { emptyWhenMissing } from '../util/missing.ts'
import type { Engine } from './engine.ts'
import { isName, isOwnerName, NAME_RULE, nameKey, OWNER_NAME_RULE } from './names.ts'
import { RuleViolation } from './rule-violation.ts'
import type { Permission, Tables, Visibility } from './tables.ts'
import { nowInSeconds } from './time.ts'

/** A stored repository. `path` is the folder of its files; `managed` says whether the server created it. */
export type Repository = Omit<Selectable<Tables['repositories']>, 'path'> & { path: string; managed: boolean }

export interface NewRepository {
  owner: string
  name: string
  visibility: Visibility
  objectFormat: 'sha1' | 'sha256'
  /** Absolute path of an imported repository. Without it, the files are in the server's own folder. */
  path?: string
}

/** Returns functions that manage repositories and the access of users to them. */
export function repositoryStore({ kysely }: Engine, folder: string) {
  const located = (row: Selectable<Tables['repositories']>): Repository => ({
    ...row,
    path: repositoryPath(folder, row),
    managed: row.path === null,
  })

  const find = async (owner: string, name: string): Promise<Repository | undefined> => {
    const row = await kysely
      .selectFrom('repositories')
      .selectAll()
      .where('owner_key', '=', nameKey(owner))
      .where('name_key', '=', nameKey(name))
      .executeTakeFirst()
    return row && located(row)
  }

  /** Returns a repository. @throws RuleViolation if it does not exist */
  const get = async (owner: string, name: string): Promise<Repository> => {
    const repository = await find(owner, name)
    if (!repository) throw new RuleViolation(`there is no repository ${owner}/${name}`)
    return repository
  }

  return {
    find,
    get,

    /**
     * Creates a repository. Skips ids whose folder exists, because its content may still be needed: an interrupted
     * creation leaves a folder behind, and so does restoring a backup that is older than the repository.
     *
     * @param place moves the files to their folder before the row is visible; if it fails, there is no row. It must be
     * quick, because the database is locked meanwhile.
     * @throws RuleViolation if a name is invalid or taken
     */
    async create(repository: NewRepository, place?: (path: string) => Promise<void>): Promise<Repository> {
      const { owner, name, visibility, objectFormat } = repository
      if (!isOwnerName(owner))
        throw new RuleViolation(`"${owner}" is not a valid owner name: ${OWNER_NAME_RULE}`)
      if (!isName(name)) throw new RuleViolation(`"${name}" is not a valid repository name: ${NAME_RULE}`)
      const values = {
        owner,
        owner_key: nameKey(owner),
        name,
        name_key: nameKey(name),
        visibility,
        object_format: objectFormat,
        path: repository.path ?? null,
        created_at: nowInSeconds(),
      }
      return kysely.transaction().execute(async (trx) => {
        for (;;) {
          const row = await trx
            .insertInto('repositories')
            .values(values)
            .onConflict((conflict) => conflict.columns(['owner_key', 'name_key']).doNothing())
            .returningAll()
            .executeTakeFirst()
          if (!row) throw new RuleViolation(`there is already a repository ${owner}/${name}`)
          const created = located(row)
          if (!created.managed || !lstatSync(created.path, { throwIfNoEntry: false })) {
            await place?.(created.path)
            return created
          }
          // The next row gets another id.
          await trx.deleteFrom('repositories').where('id', '=', row.id).execute()
        }
      })
    },

    /** Makes sure that the server can create repositories, where it has created one before. @throws the system's error */
    async checkFolder(): Promise<void> {
      await access(folder, constants.W_OK | constants.X_OK).catch(emptyWhenMissing)
    },

    async list(): Promise<Repository[]> {
      const rows = await kysely
        .selectFrom('repositories')
        .selectAll()
        .orderBy('owner_key')
        .orderBy('name_key')
        .execute()
      return rows.map(located)
    },

    /**
     * Returns the folders in the server's own folder that belong to no repository, sorted, except hidden ones and
     * `lost+found`. The result may include a repository that is being created.
     */
    async strayFolders(): Promise<string[]> {
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

    /** Deletes a repository with its statuses and collaborators. The caller removes the files. */
    async delete(owner: string, name: string): Promise<Repository> {
      const repository = await get(owner, name)
      await kysely.deleteFrom('repositories').where('id', '=', repository.id).execute()
      return repository
    },

    async setVisibility(owner: string, name: string, visibility: Visibility): Promise<void> {
      const { id } = await get(owner, name)
      await kysely.updateTable('repositories').set({ visibility }).where('id', '=', id).execute()
    },

    /** Sets a user's access. @param permission null to remove it */
    async setAccess(
      owner: string,
      name: string,
      userId: number,
      permission: Permission | null,
    ): Promise<void> {
      const { id } = await get(owner, name)
      if (permission === null) {
        await kysely
          .deleteFrom('collaborators')
          .where('repository_id', '=', id)
          .where('user_id', '=', userId)
          .execute()
        return
      }
      await kysely
        .insertInto('collaborators')
        .values({ repository_id: id, user_id: userId, permission })
        .onConflict((conflict) => conflict.columns(['repository_id', 'user_id']).doUpdateSet({ permission }))
        .execute()
    },
  }
}

/** Returns the folder of a repository's files. Created ones are named by id, so that paths contain no client input. */
export function repositoryPath(folder: string, row: { id: number; path: string | null }): string {
  return row.path ?? join(folder, `${row.id}.git`)
}
