import { lstatSync } from 'node:fs'
import type { Kysely, Selectable } from 'kysely'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { isName, isOwnerName, NAME_RULE, nameKey, OWNER_NAME_RULE } from '../../domain/names.ts'
import { AlreadyExists, RuleViolation } from '../../domain/rule-violation.ts'
import { ADMINISTRATOR, type Audit, type AuditEvent, type Recorder } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import type { Tables, Visibility } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { locate, type OwnerTrust } from './folders.ts'

/** A stored repository. */
export interface Repository {
  /** Never used again once it is deleted. */
  id: number
  owner: string
  name: string
  visibility: Visibility
  objectFormat: ObjectFormat
  /** Its git directory: absolute, without symbolic links. */
  path: string
  /** Whether the server created it, in its own folder. */
  managed: boolean
  ownerTrust: OwnerTrust
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

/** Maximum number of repositories that a message names. */
const MAX_LISTED = 10

export type RepositoryStore = ReturnType<typeof createRepositoryStore>

/** Returns functions that manage repositories. */
export function createRepositoryStore({ kysely }: Engine, folder: string, audit: Audit) {
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

  /** Returns a repository. @throws RuleViolation if it does not exist */
  const get = async (owner: string, name: string, db: Kysely<Tables> = kysely): Promise<Repository> => {
    const repository = await find(owner, name, db)
    if (!repository) throw new RuleViolation(`there is no repository ${owner}/${name}`)
    return repository
  }

  /**
   * Skips ids whose folder exists, because its content may still be needed: an interrupted creation
   * leaves a folder behind, and so does restoring a backup that is older than the repository.
   */
  const create = async (
    db: Kysely<Tables>,
    record: Recorder,
    { owner, name, visibility, objectFormat, path, trustOwner }: NewRepository,
    place?: (path: string) => Promise<void>,
  ): Promise<Repository> => {
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
      path: path ?? null,
      trust_owner: trustOwner ? 1 : 0,
      created_at: nowInSeconds(),
    }
    for (;;) {
      const row = await db
        .insertInto('repositories')
        .values(values)
        .onConflict((conflict) => conflict.columns(['owner_key', 'name_key']).doNothing())
        .returningAll()
        .executeTakeFirst()
      if (!row) throw new AlreadyExists(`there is already a repository ${owner}/${name}`)
      const created = read(row)
      if (!created.managed || !lstatSync(created.path, { throwIfNoEntry: false })) {
        await record(creationOf(created))
        await place?.(created.path)
        return created
      }
      // The next row gets another id.
      await db.deleteFrom('repositories').where('id', '=', row.id).execute()
    }
  }

  return {
    find: (owner: string, name: string) => find(owner, name),
    get,

    /**
     * Creates a repository.
     *
     * @param place moves the files to their folder before the row is visible; if it fails, there is
     * no row. It must be quick, because the database is locked meanwhile.
     * @throws AlreadyExists if the name is taken
     * @throws RuleViolation if a name is invalid
     */
    async create(repository: NewRepository, place?: (path: string) => Promise<void>): Promise<Repository> {
      return audit.transaction((db, record) => create(db, record, repository, place))
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
    ): Promise<Repository[]> {
      return audit.transaction(async (db, record) => {
        const created: Repository[] = []
        for (const { repository, place } of repositories)
          created.push(await create(db, record, repository, place))
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
        if (!row) throw new RuleViolation('the repository was deleted in the meantime; nothing was changed')
        await record(creationOf(read(row)))
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
    ): Promise<void> {
      return audit.transaction(async (_db, record) => {
        if (names.from !== names.to)
          await record({
            by: ADMINISTRATOR,
            action: 'repository.default-branch',
            repository: fullNameOf(repository),
            details: names,
          })
        await change()
      })
    },

    /** Deletes a repository with its statuses and collaborators. The caller removes the files. */
    delete(owner: string, name: string): Promise<Repository> {
      return audit.transaction(async (db, record) => {
        const repository = await get(owner, name, db)
        await db.deleteFrom('repositories').where('id', '=', repository.id).execute()
        await record({
          by: ADMINISTRATOR,
          action: 'repository.deleted',
          repository: fullNameOf(repository),
          details: {},
        })
        return repository
      })
    },

    setVisibility(owner: string, name: string, visibility: Visibility): Promise<void> {
      return audit.transaction(async (db, record) => {
        const repository = await get(owner, name, db)
        if (repository.visibility === visibility) return
        await db.updateTable('repositories').set({ visibility }).where('id', '=', repository.id).execute()
        await record({
          by: ADMINISTRATOR,
          action: 'repository.visibility',
          repository: fullNameOf(repository),
          details: { visibility },
        })
      })
    },
  }
}

/**
 * Gives all repositories of an owner to another one.
 *
 * @returns the names before and since
 * @throws RuleViolation if the new owner has repositories of the same names, which it lists
 */
export async function moveRepositories(
  db: Kysely<Tables>,
  from: string,
  to: string,
): Promise<{ from: string; to: string }[]> {
  const taken = await db
    .selectFrom('repositories as moved')
    .innerJoin('repositories as taken', 'taken.name_key', 'moved.name_key')
    .select(['taken.owner', 'taken.name'])
    .where('moved.owner_key', '=', nameKey(from))
    .where('taken.owner_key', '=', nameKey(to))
    .orderBy('taken.name_key')
    .execute()
  if (taken.length > 0) {
    const names = taken.slice(0, MAX_LISTED).map(fullNameOf).join(', ')
    const more = taken.length > MAX_LISTED ? ` and ${taken.length - MAX_LISTED} more` : ''
    throw new RuleViolation(`"${to}" already owns ${names}${more}; delete those first. Nothing was changed`)
  }
  const moving = await db
    .selectFrom('repositories')
    .select(['owner', 'name'])
    .where('owner_key', '=', nameKey(from))
    .orderBy('name_key')
    .execute()
  await db
    .updateTable('repositories')
    .set({ owner: to, owner_key: nameKey(to) })
    .where('owner_key', '=', nameKey(from))
    .execute()
  return moving.map(({ owner, name }) => ({ from: `${owner}/${name}`, to: `${to}/${name}` }))
}

/** Returns the event of a repository that was created or imported. */
function creationOf(repository: Repository): AuditEvent {
  const { visibility, objectFormat: object_format, path, managed, ownerTrust } = repository
  const event = { by: ADMINISTRATOR, repository: fullNameOf(repository) }
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
