import { lstatSync } from 'node:fs'
import type { Kysely, Selectable } from 'kysely'
import { nameKey } from '../../domain/names.ts'
import { checkUnchanged, Refusal } from '../../domain/refusal.ts'
import type { ReadableRepository } from '../access/access.ts'
import { checkOwnerAdmin, checkRepositoryAdmin } from '../access/administration.ts'
import { type Actor, ADMINISTRATOR, type Audit, type AuditEvent, type Recorder } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import { ensureOwner, lockOwner } from '../owners/owners.ts'
import { locate } from '../repository-files.ts'
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

export type RepositoryStore = ReturnType<typeof createRepositoryStore>

/** Returns functions that manage repositories. */
export function createRepositoryStore(engine: Engine, folder: string, audit: Audit) {
  const { kysely } = engine
  const read = (row: Selectable<Tables['repositories']>): Repository => {
    const { id, owner, name, visibility, object_format: objectFormat, created_at: createdAt } = row
    return { id, owner, name, visibility, objectFormat, ...locate(folder, row), createdAt }
  }

  const find = async (
    owner: string,
    name: string,
    db: Kysely<Tables> = kysely,
  ): Promise<Repository | undefined> => {
    const row = await db
      .selectFrom('repositories')
      .selectAll()
      .where('owner_key', '=', nameKey(owner))
      .where('name_key', '=', nameKey(name))
      .executeTakeFirst()
    return row && read(row)
  }

  /** Returns a repository. @throws Refusal if it does not exist */
  const get = async (owner: string, name: string, db: Kysely<Tables> = kysely): Promise<Repository> => {
    const repository = await find(owner, name, db)
    if (!repository) throw new Refusal(`there is no repository ${owner}/${name}`)
    return repository
  }

  /**
   * Skips ids whose folder exists, because its content may still be needed: an interrupted creation
   * leaves a folder behind, and so does restoring a backup that is older than the repository.
   */
  const create = async (
    db: Kysely<Tables>,
    record: Recorder,
    by: Actor,
    { owner, name, visibility, objectFormat, path, trustOwner }: NewRepository,
    place?: (path: string) => Promise<void>,
  ): Promise<Repository> => {
    checkName({ owner, name })
    const row =
      by.kind === 'administrator' ? await ensureOwner(db, record, owner) : await lockOwner(db, owner)
    await checkOwnerAdmin(db, by, row?.id ?? -1)
    if (!row) throw new Refusal(`there is no user or group "${owner}"`)
    if (by.kind !== 'administrator') await checkCount(db, row)
    await checkFree(db, row, name)
    const values = {
      owner_id: row.id,
      owner,
      owner_key: row.name_key,
      name,
      name_key: nameKey(name),
      visibility,
      object_format: objectFormat,
      path: path ?? null,
      trust_owner: trustOwner ? 1 : 0,
      created_at: nowInSeconds(),
    }
    for (;;) {
      const row = await db.insertInto('repositories').values(values).returningAll().executeTakeFirstOrThrow()
      const created = read(row)
      if (!created.managed || !lstatSync(created.path, { throwIfNoEntry: false })) {
        await record(creationOf(created, by))
        await place?.(created.path)
        return created
      }
      // The next row gets another id.
      await db.deleteFrom('repositories').where('id', '=', row.id).execute()
    }
  }

  return {
    /** Absolute path of the folder of the repositories that the server creates. */
    folder,
    find: (owner: string, name: string) => find(owner, name),
    get,

    /**
     * Creates a repository.
     *
     * @param place moves the files to their folder before the row is visible; if it fails, there is
     * no row. It must be quick, because the database is locked meanwhile.
     * @throws AlreadyExists if the name is taken
     * @throws Refusal if a name is invalid or reserved, or a user's owner has too many
     * @throws ServiceError as `checkOwnerAdmin`
     */
    async create(
      repository: NewRepository,
      place?: (path: string) => Promise<void>,
      by: Actor = ADMINISTRATOR,
    ): Promise<Repository> {
      return audit.transaction((db, record) => create(db, record, by, repository, place))
    },

    /**
     * Creates repositories: all or none. The caller removes the files that `publish` has moved if
     * this fails.
     *
     * @param publish moves the files to the paths that each `place` has received, before the rows
     * are visible
     */
    createAll(
      repositories: readonly { repository: NewRepository; place(path: string): Promise<void> }[],
      publish: () => Promise<void>,
      by: Actor = ADMINISTRATOR,
    ): Promise<Repository[]> {
      return audit.transaction(async (db, record) => {
        const created: Repository[] = []
        for (const { repository, place } of repositories)
          created.push(await create(db, record, by, repository, place))
        await publish()
        return created
      })
    },

    /**
     * Records that the accounts that can write the configuration of an imported repository are
     * trusted.
     */
    trustOwner(id: number): Promise<void> {
      return audit.transaction(async (db, record) => {
        const row = await db
          .updateTable('repositories')
          .set({ trust_owner: 1 })
          .where('id', '=', id)
          .returningAll()
          .executeTakeFirst()
        if (!row) throw new Refusal('the repository was deleted in the meantime; nothing was changed')
        await record(creationOf(read(row), ADMINISTRATOR))
      })
    },

    async list(): Promise<Repository[]> {
      const rows = await kysely
        .selectFrom('repositories')
        .selectAll()
        .orderBy('owner_key')
        .orderBy('name_key')
        .execute()
      return rows.map(read)
    },

    /**
     * Records that HEAD of a repository was set.
     *
     * @param change sets HEAD; if it fails, nothing is recorded. It must be quick, because the
     * database is locked meanwhile
     */
    setDefaultBranch(
      repository: Repository,
      names: { from: string | null; to: string },
      change: () => Promise<void>,
      by: Actor = ADMINISTRATOR,
    ): Promise<void> {
      return audit.transaction(async (db, record) => {
        await checkRepositoryAdmin(db, by, repository.id)
        if (names.from !== names.to)
          await record({
            by,
            action: 'repository.default-branch',
            repository: fullNameOf(repository),
            details: names,
          })
        await change()
      })
    },

    /**
     * Deletes a repository with its statuses and collaborators. The caller removes the files.
     *
     * One transaction deletes it. Of very many statuses or collaborators, most are deleted before it,
     * in steps between which others can write; a commit keeps all of its statuses or none. If that is
     * interrupted, the next call continues.
     *
     * @throws Refusal if it does not exist; ServiceError as `checkRepositoryAdmin`
     */
    async delete(owner: string, name: string, by: Actor = ADMINISTRATOR): Promise<Repository> {
      const { id } = await get(owner, name)
      await checkRepositoryAdmin(kysely, by, id)
      for (const children of [
        { table: 'statuses', parent: 'repository_id', order: 'sha' },
        { table: 'collaborators', parent: 'repository_id', order: 'user_id' },
      ] as const)
        await deleteMostChildren(engine, children, id)

      return audit.transaction(async (db, record) => {
        // It may have another name meanwhile.
        const row = await db.selectFrom('repositories').selectAll().where('id', '=', id).executeTakeFirst()
        if (!row) throw new Refusal(`there is no repository ${owner}/${name}`)
        const repository = read(row)
        await checkRepositoryAdmin(db, by, id)
        await db.deleteFrom('repositories').where('id', '=', id).execute()
        await record({
          by,
          action: 'repository.deleted',
          repository: fullNameOf(repository),
          details: {},
        })
        return repository
      })
    },

    /**
     * @param expected what it is before, as far as the caller knows; default: anything
     * @throws Refusal if it does not exist, or is something else; ServiceError as
     * `checkRepositoryAdmin`
     */
    setVisibility(
      owner: string,
      name: string,
      visibility: Visibility,
      by: Actor = ADMINISTRATOR,
      expected?: string,
    ): Promise<void> {
      return audit.transaction(async (db, record) => {
        const repository = await get(owner, name, db)
        await checkRepositoryAdmin(db, by, repository.id)
        if (repository.visibility === visibility) return
        checkUnchanged('the visibility', repository.visibility, expected)
        await db.updateTable('repositories').set({ visibility }).where('id', '=', repository.id).execute()
        await record({
          by,
          action: 'repository.visibility',
          repository: fullNameOf(repository),
          details: { visibility, from: repository.visibility },
        })
      })
    },
  }
}

/** Returns the event of a repository that was created or imported. */
function creationOf(repository: Repository, by: Actor): AuditEvent {
  const { visibility, objectFormat: object_format, path, managed, ownerTrust } = repository
  const event = { by, repository: fullNameOf(repository) }
  if (managed) return { ...event, action: 'repository.created', details: { visibility, object_format } }
  const details = {
    visibility,
    object_format,
    path,
    ...(ownerTrust === 'trusted' && ({ trust_owner: true } as const)),
  }
  return { ...event, action: 'repository.imported', details }
}

export function fullNameOf({ owner, name }: { owner: string; name: string }): string {
  return `${owner}/${name}`
}
