import { constants, lstatSync } from 'node:fs'
import { access, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely, Selectable } from 'kysely'
import { emptyWhenMissing } from '../util/missing.ts'
import { ADMINISTRATOR, type Audit, type AuditEvent } from './audit.ts'
import type { Engine } from './engine.ts'
import { isName, isOwnerName, NAME_RULE, nameKey, OWNER_NAME_RULE } from './names.ts'
import { RuleViolation } from './rule-violation.ts'
import type { Permission, Tables, Visibility } from './tables.ts'
import { nowInSeconds } from './time.ts'

/** A stored repository. `path` is the folder of its files; `managed` says whether the server created it. */
export type Repository = Omit<Selectable<Tables['repositories']>, 'path'> & {
  path: string
  managed: boolean
  /** See `RepositoryFolder`. */
  checksOwner: boolean
}

export interface NewRepository {
  owner: string
  name: string
  visibility: Visibility
  objectFormat: 'sha1' | 'sha256'
  /** Absolute path of an imported repository. Without it, the files are in the server's own folder. */
  path?: string
  /** Whether the accounts that can write its configuration are trusted: see `findOwnerProblem`. */
  trustOwner?: boolean
}

/** Who has access to a repository. */
export interface RepositoryAccessEntry {
  /** null for everyone. */
  user: string | null
  permission: Permission
  /** Owns it, was granted access, or anyone may read it because it is public. */
  reason: 'owner' | 'granted' | 'public'
  /** When the user was locked, in seconds since the epoch; null: not locked. A locked user has no access meanwhile. */
  lockedAt: number | null
}

/** Maximum number of repositories that a message names. */
const MAX_LISTED = 10

/** Returns functions that manage repositories and the access of users to them. */
export function repositoryStore({ kysely }: Engine, folder: string, audit: Audit) {
  const located = (row: Selectable<Tables['repositories']>): Repository => locate(folder, row)

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
    return row && located(row)
  }

  /** Returns a repository. @throws RuleViolation if it does not exist */
  const get = async (owner: string, name: string, db: Kysely<Tables> = kysely): Promise<Repository> => {
    const repository = await find(owner, name, db)
    if (!repository) throw new RuleViolation(`there is no repository ${owner}/${name}`)
    return repository
  }

  return {
    find: (owner: string, name: string) => find(owner, name),
    get: (owner: string, name: string) => get(owner, name),

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
        trust_owner: repository.trustOwner ? 1 : 0,
        created_at: nowInSeconds(),
      }
      return audit.transaction(async (db, record) => {
        for (;;) {
          const row = await db
            .insertInto('repositories')
            .values(values)
            .onConflict((conflict) => conflict.columns(['owner_key', 'name_key']).doNothing())
            .returningAll()
            .executeTakeFirst()
          if (!row) throw new RuleViolation(`there is already a repository ${owner}/${name}`)
          const created = located(row)
          if (!created.managed || !lstatSync(created.path, { throwIfNoEntry: false })) {
            await record(creationOf(created))
            await place?.(created.path)
            return created
          }
          // The next row gets another id.
          await db.deleteFrom('repositories').where('id', '=', row.id).execute()
        }
      })
    },

    /** Records that the accounts that can write the configuration of an imported repository are trusted. */
    trustOwner(id: number): Promise<void> {
      return audit.transaction(async (db, record) => {
        const row = await db
          .updateTable('repositories')
          .set({ trust_owner: 1 })
          .where('id', '=', id)
          .returningAll()
          .executeTakeFirst()
        if (!row) throw new RuleViolation('the repository was deleted in the meantime; nothing was changed')
        await record(creationOf(located(row)))
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

    /** Sets a user's access. @param permission null to remove it */
    setAccess(owner: string, name: string, userId: number, permission: Permission | null): Promise<void> {
      return audit.transaction(async (db, record) => {
        const repository = await get(owner, name, db)
        const user = await db
          .selectFrom('users')
          .select(['id', 'name'])
          .where('id', '=', userId)
          .executeTakeFirst()
        if (!user) throw new RuleViolation('the user was deleted in the meantime; nothing was changed')
        const key = { repository_id: repository.id, user_id: user.id }
        const before = await db
          .selectFrom('collaborators')
          .select('permission')
          .where('repository_id', '=', key.repository_id)
          .where('user_id', '=', key.user_id)
          .executeTakeFirst()
        if ((before?.permission ?? null) === permission) return
        if (permission === null) {
          await db
            .deleteFrom('collaborators')
            .where('repository_id', '=', key.repository_id)
            .where('user_id', '=', key.user_id)
            .execute()
        } else {
          await db
            .insertInto('collaborators')
            .values({ ...key, permission })
            .onConflict((conflict) =>
              conflict.columns(['repository_id', 'user_id']).doUpdateSet({ permission }),
            )
            .execute()
        }
        await record({
          by: ADMINISTRATOR,
          action: 'repository.access',
          repository: fullNameOf(repository),
          user,
          details: { user: user.name, access: permission ?? 'none' },
        })
      })
    },

    /** Returns who has access to a repository, and why. The owner comes first. */
    async access(owner: string, name: string): Promise<RepositoryAccessEntry[]> {
      const repository = await get(owner, name)
      const everyone = { user: null, permission: 'read', reason: 'public', lockedAt: null } as const
      const owners = await kysely
        .selectFrom('users')
        .select(['name', 'locked_at'])
        .where('name_key', '=', repository.owner_key)
        .execute()
      const collaborators = await kysely
        .selectFrom('collaborators')
        .innerJoin('users', 'users.id', 'collaborators.user_id')
        .select(['users.name', 'users.locked_at', 'collaborators.permission'])
        .where('collaborators.repository_id', '=', repository.id)
        .where('users.name_key', '<>', repository.owner_key)
        .orderBy('users.name_key')
        .execute()
      return [
        ...owners.map(
          ({ name, locked_at }) =>
            ({ user: name, permission: 'write', reason: 'owner', lockedAt: locked_at }) as const,
        ),
        ...collaborators.map(
          ({ name, locked_at, permission }) =>
            ({ user: name, permission, reason: 'granted', lockedAt: locked_at }) as const,
        ),
        ...(repository.visibility === 'public' ? [everyone] : []),
      ]
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
  const { visibility, object_format, path, managed, trust_owner } = repository
  const event = { by: ADMINISTRATOR, repository: fullNameOf(repository) }
  if (managed) return { ...event, action: 'repository.created', details: { visibility, object_format } }
  const details = {
    visibility,
    object_format,
    path,
    ...(trust_owner === 1 && ({ trust_owner: true } as const)),
  }
  return { ...event, action: 'repository.imported', details }
}

function fullNameOf({ owner, name }: { owner: string; name: string }): string {
  return `${owner}/${name}`
}

/** Returns a row with the folder of its repository, whether the server created it, and whether its owner is not trusted. */
export function locate<Row extends { id: number; path: string | null; trust_owner: number | null }>(
  folder: string,
  row: Row,
) {
  const managed = row.path === null
  return {
    ...row,
    path: repositoryPath(folder, row),
    managed,
    checksOwner: !managed && row.trust_owner === 0,
  }
}

/** Returns the folder of a repository's files. Created ones are named by id, so that paths contain no client input. */
function repositoryPath(folder: string, row: { id: number; path: string | null }): string {
  return row.path ?? join(folder, `${row.id}.git`)
}
