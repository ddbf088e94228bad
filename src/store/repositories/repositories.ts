import { lstatSync } from 'node:fs'
import type { Selectable } from 'kysely'
import { nameKey } from '../../domain/names.ts'
import { checkUnchanged, Refusal } from '../../domain/refusal.ts'
import {
  administeredRepository,
  checkOwnerAdmin,
  findRow,
  getRow,
  namedAs,
  type RepositoryName,
} from '../access/administration.ts'
import type { ReadableRepository } from '../access/readable-repositories.ts'
import type { AuditEvent } from '../audit/audit.ts'
import type { Change, Transact } from '../audit/change.ts'
import type { Engine } from '../engine.ts'
import { ensureOwner, lockOwner } from '../owners/owners.ts'
import { locate, OWNER_TRUST } from '../repository-files.ts'
import { deleteMostChildren } from '../steps.ts'
import type { Tables, Visibility } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { checkCount, checkFree, checkName } from './moves.ts'

/** A stored repository. */
export interface Repository extends Omit<ReadableRepository, 'permission'> {
  /** Seconds since the epoch. */
  createdAt: number
}

export interface NewRepository extends Pick<Repository, 'owner' | 'name' | 'visibility' | 'objectFormat'> {
  /**
   * Absolute path of an imported repository. Without it, the files are in the server's own folder.
   */
  path?: string
  /** Whether the accounts that can write its configuration are trusted: see `findOwnerProblem`. */
  trustOwner?: boolean
}

/** Returns functions that manage repositories. */
export function createRepositoryStore({ kysely }: Engine, folder: string) {
  return {
    /** Absolute path of the folder of the repositories that the server creates. */
    folder,
    ...changesOf(folder),

    async find(owner: string, name: string): Promise<Repository | undefined> {
      const row = await findRow(kysely, { owner, name })
      return row && readRow(folder, row)
    },

    /** Returns a repository. @throws Refusal if it does not exist */
    async get(owner: string, name: string): Promise<Repository> {
      return readRow(folder, await getRow(kysely, { owner, name }))
    },

    async list(): Promise<Repository[]> {
      const rows = await kysely
        .selectFrom('repositories')
        .selectAll()
        .orderBy('owner_key')
        .orderBy('name_key')
        .execute()
      return rows.map((row) => readRow(folder, row))
    },
  }
}

/** Returns functions that change repositories. @param folder of those that the server creates */
function changesOf(folder: string) {
  /**
   * Creates a repository. Skips ids whose folder exists, because its content may still be needed: an
   * interrupted creation leaves a folder behind, and so does restoring a backup that is older than
   * the repository.
   *
   * @param place moves the files to their folder before the row is visible; if it fails, there is
   * no row. It must be quick, because the database is locked meanwhile.
   * @throws AlreadyExists if the name is taken
   * @throws Refusal if a name is invalid or reserved, or a user's owner has too many
   * @throws ServiceError as `checkOwnerAdmin`
   */
  async function create(
    change: Change,
    { owner, name, visibility, objectFormat, path, trustOwner }: NewRepository,
    place?: (path: string) => Promise<void>,
  ): Promise<Repository> {
    checkName({ owner, name })
    const { db, by } = change
    const row =
      by.kind === 'administrator' ? await ensureOwner(change, owner) : await lockOwner(change, owner)
    await checkOwnerAdmin(change, row?.id ?? -1)
    if (!row) throw new Refusal(`there is no user or group "${owner}"`)
    if (by.kind !== 'administrator') await checkCount(db, row)
    await checkFree(change, row, name)
    const values = {
      owner_id: row.id,
      owner,
      owner_key: row.name_key,
      name,
      name_key: nameKey(name),
      visibility,
      object_format: objectFormat,
      path: path ?? null,
      trust_owner: OWNER_TRUST[trustOwner ? 'trusted' : 'checked'],
      created_at: nowInSeconds(),
    }
    for (;;) {
      const row = await db.insertInto('repositories').values(values).returningAll().executeTakeFirstOrThrow()
      const created = readRow(folder, row)
      if (!created.managed || !lstatSync(created.path, { throwIfNoEntry: false })) {
        await change.record(creationOf(created))
        await place?.(created.path)
        return created
      }
      // The next row gets another id.
      await db.deleteFrom('repositories').where('id', '=', row.id).execute()
    }
  }

  return {
    create,

    /**
     * Records that the accounts that can write the configuration of an imported repository are
     * trusted.
     */
    async trustOwner(change: Change, id: number): Promise<void> {
      const row = await change.db
        .updateTable('repositories')
        .set({ trust_owner: OWNER_TRUST.trusted })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirst()
      if (!row) throw new Refusal('the repository was deleted in the meantime; nothing was changed')
      await change.record(creationOf(readRow(folder, row)))
    },

    /**
     * Records that HEAD of a repository was set.
     *
     * @param apply sets HEAD; if it fails, nothing is recorded. It must be quick, because the
     * database is locked meanwhile
     * @throws as `administeredRepository`
     */
    async setDefaultBranch(
      change: Change,
      repository: RepositoryName,
      names: { from: string | null; to: string },
      apply: () => Promise<void>,
    ): Promise<void> {
      const row = await administeredRepository(change, repository)
      if (names.from !== names.to)
        await change.record({
          action: 'repository.default-branch',
          repository: namedAs(row),
          details: names,
        })
      await apply()
    },

    /**
     * Deletes a repository with its statuses and collaborators. The caller removes the files.
     *
     * One transaction deletes it. Of very many statuses or collaborators, most are deleted before it,
     * in steps between which others can write; a commit keeps all of its statuses or none. If that is
     * interrupted, the next call continues.
     *
     * @throws as `administeredRepository`
     */
    async delete(transact: Transact, repository: RepositoryName): Promise<Repository> {
      const { id } = await transact((change) => administeredRepository(change, repository))
      for (const children of [
        { table: 'statuses', parent: 'repository_id', order: 'sha' },
        { table: 'collaborators', parent: 'repository_id', order: 'user_id' },
      ] as const)
        await deleteMostChildren(transact, children, id)

      return transact(async (change) => {
        // It may have another name meanwhile.
        const names = change.db
          .selectFrom('repositories')
          .select(['id', 'owner', 'name'])
          .where('id', '=', id)
        const row = await administeredRepository(change, (await names.executeTakeFirst()) ?? repository)
        await change.db.deleteFrom('repositories').where('id', '=', row.id).execute()
        await change.record({ action: 'repository.deleted', repository: namedAs(row), details: {} })
        return readRow(folder, row)
      })
    },

    /**
     * @param expected what it is before, as far as the caller knows; default: anything
     * @throws Refusal if it is something else; as `administeredRepository`
     */
    async setVisibility(
      change: Change,
      repository: RepositoryName,
      visibility: Visibility,
      expected?: string,
    ): Promise<void> {
      const row = await administeredRepository(change, repository)
      if (row.visibility === visibility) return
      checkUnchanged('the visibility', row.visibility, expected)
      await change.db.updateTable('repositories').set({ visibility }).where('id', '=', row.id).execute()
      await change.record({
        action: 'repository.visibility',
        repository: namedAs(row),
        details: { visibility, from: row.visibility },
      })
    },
  }
}

function readRow(folder: string, row: Selectable<Tables['repositories']>): Repository {
  const { id, owner, name, visibility, object_format: objectFormat, created_at: createdAt } = row
  return { id, owner, name, visibility, objectFormat, ...locate(folder, row), createdAt }
}

/** Returns the event of a repository that was created or imported. */
function creationOf(repository: Repository): AuditEvent {
  const { visibility, objectFormat: object_format, path, managed, ownerTrust } = repository
  const event = { repository: namedAs(repository) }
  if (managed) return { ...event, action: 'repository.created', details: { visibility, object_format } }
  const details = {
    visibility,
    object_format,
    path,
    ...(ownerTrust === 'trusted' && ({ trust_owner: true } as const)),
  }
  return { ...event, action: 'repository.imported', details }
}

export function fullNameOf({ owner, name }: RepositoryName): string {
  return `${owner}/${name}`
}
