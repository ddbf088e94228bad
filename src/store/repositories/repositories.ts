import type { Selectable } from 'kysely'
import type { Administrator, Person, Server } from '../../domain/actors.ts'
import { nameKey } from '../../domain/names.ts'
import { AlreadyExists, checkUnchanged, Refusal } from '../../domain/refusal.ts'
import { chunksOf } from '../../util/lists.ts'
import {
  administeredRepository,
  checkOwnerAdmin,
  findRow,
  getRow,
  namedAs,
  type RepositoryName,
} from '../access/administration.ts'
import { lockOwners } from '../access/locked-rows.ts'
import type { ReadableRepository } from '../access/readable-repositories.ts'
import type { AuditEvent } from '../audit/audit.ts'
import type { Audit, Change, Transact } from '../audit/change.ts'
import { deleteMostChildren } from '../delete-children.ts'
import { DELETED, deletedIds, isPresent } from '../deleted-repositories.ts'
import type { Reading } from '../engine.ts'
import { ensureOwners, type Owner } from '../owners/owners.ts'
import { locate, OWNER_TRUST } from '../repository-files.ts'
import { INSERTED_ROWS } from '../steps.ts'
import type { Tables, Visibility } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import type { Place } from './folders.ts'
import { checkCount, checkName, rename } from './moves.ts'
import { checkUnreserved } from './reserved-names.ts'

type Row = Selectable<Tables['repositories']>
/** By the keys of their names. */
type Owners = ReadonlyMap<string, Owner>

/** A stored repository. */
export interface Repository extends Omit<ReadableRepository, 'permission' | 'reservations'> {
  /** Seconds since the epoch. */
  createdAt: number
}

export interface NewRepository extends Pick<Repository, 'owner' | 'name' | 'visibility' | 'objectFormat'> {
  /**
   * Absolute path of an imported repository. Without it, the files are in the server's own folder.
   */
  path?: string
  /** The place of its files, if they are there already; default: a new one. */
  place?: Place
  /** Whether the accounts that can write its configuration are trusted: see `findOwnerProblem`. */
  trustOwner?: boolean
}

/** Returns functions that manage repositories. */
export function createRepositoryStore({ kysely }: Reading, folder: string, audit: Audit) {
  const transact: Transact<Server> = (work) => audit.transaction({ kind: 'server' }, work)

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
        .where(isPresent)
        .orderBy('owner_key')
        .orderBy('name_key')
        .execute()
      return rows.map((row) => readRow(folder, row))
    },

    /** Returns the ids of repositories that are deleted and not removed yet, oldest first. */
    listDeleted: (): Promise<number[]> => deletedIds(kysely),

    /**
     * Removes what is left of a deleted repository, in steps between which others can write; a commit
     * keeps all of its statuses or none. Can be repeated, and done by several processes at once.
     *
     * @param removeFiles removes the files of one that the server created
     */
    async removeDeleted(id: number, removeFiles: (path: string) => Promise<void>): Promise<void> {
      const deleted = await kysely
        .selectFrom('repositories')
        .selectAll()
        .where('id', '=', id)
        .where('owner_key', '=', DELETED)
        .executeTakeFirst()
      if (!deleted) return
      for (const children of [
        { table: 'statuses', parent: 'repository_id', order: 'sha' },
        { table: 'branch_moves', parent: 'repository_id', order: 'ref' },
      ] as const)
        await deleteMostChildren(transact, children, id)
      const { managed, path } = readRow(folder, deleted)
      if (managed) await removeFiles(path)
      await transact(({ db }) => db.deleteFrom('repositories').where('id', '=', id).execute())
    },
  }
}

/** Returns functions that change repositories. @param folder of those that the server creates */
function changesOf(folder: string) {
  /**
   * Creates repositories, in few statements, since the database is locked meanwhile.
   *
   * @throws AlreadyExists if a name is taken
   * @throws Refusal if a name is invalid or reserved, or a user's owner has too many
   * @throws ServiceError as `checkOwnerAdmin`
   */
  async function createAll(change: Change<Person>, wanted: readonly NewRepository[]): Promise<Repository[]> {
    for (const repository of wanted) checkName(repository)
    const owners = await ownersOf(change, wanted)
    const created: Repository[] = []
    for (const chunk of chunksOf(wanted, INSERTED_ROWS)) {
      const rows = chunk.map((repository) => newRow(repository, owners))
      created.push(...(await insertRows(change, rows, owners)).map((row) => readRow(folder, row)))
    }
    await checkUnreserved(change, created)
    await change.record(...created.map(creationOf))
    return created
  }

  return {
    createAll,
    rename,

    /** Creates one, as `createAll`. */
    async create(change: Change<Person>, wanted: NewRepository): Promise<Repository> {
      const [created] = await createAll(change, [wanted])
      if (!created) throw new Error('the repository was not stored')
      return created
    },

    /**
     * Records that the accounts that can write the configuration of an imported repository are
     * trusted.
     */
    async trustOwner(change: Change<Administrator>, id: number): Promise<void> {
      const repositories = change.db.selectFrom('repositories').selectAll().where('id', '=', id)
      const row = await change.locked(repositories.where(isPresent)).executeTakeFirst()
      if (!row) throw new Refusal('the repository was deleted in the meantime; nothing was changed')
      const trusted = { trust_owner: OWNER_TRUST.trusted }
      if (row.trust_owner === trusted.trust_owner) return
      await change.db.updateTable('repositories').set(trusted).where('id', '=', id).execute()
      await change.record(creationOf(readRow(folder, { ...row, ...trusted })))
    },

    /** Records that HEAD of a repository is set. @throws as `administeredRepository` */
    async recordDefaultBranch(
      change: Change<Person>,
      repository: RepositoryName,
      names: { from: string | null; to: string | null },
    ): Promise<void> {
      const row = await administeredRepository(change, repository)
      if (names.from === names.to) return
      await change.record({
        action: 'repository.default-branch',
        repository: namedAs(row),
        details: names,
      })
    },

    /** Records whether HEAD of a repository follows pushes. @throws as `administeredRepository` */
    async recordFollowing(
      change: Change<Person>,
      repository: RepositoryName,
      { from, to: follows }: { from: boolean; to: boolean },
    ): Promise<void> {
      const row = await administeredRepository(change, repository)
      const details = { follows }
      if (from !== follows)
        await change.record({ action: 'repository.default-branch', repository: namedAs(row), details })
    },

    /**
     * Deletes a repository: from the commit on, nobody finds it or stores a report for it. Its rows
     * and files remain: see `removeDeleted`.
     *
     * @throws as `administeredRepository`
     */
    async delete(change: Change<Person>, repository: RepositoryName): Promise<Repository> {
      const { db } = change
      const row = await administeredRepository(change, repository)
      for (const table of ['collaborators', 'branch_rules'] as const)
        await db.deleteFrom(table).where('repository_id', '=', row.id).execute()
      await db
        .updateTable('repositories')
        .set({ owner_id: null, owner: DELETED, owner_key: DELETED, visibility: 'private' })
        .set({ name: `${row.id}`, name_key: `${row.id}` })
        .where('id', '=', row.id)
        .execute()
      await change.record({ action: 'repository.deleted', repository: namedAs(row), details: {} })
      return readRow(folder, row)
    },

    /**
     * @param expected what it is before, as far as the caller knows; default: anything
     * @throws Refusal if it is something else; as `administeredRepository`
     */
    async setVisibility(
      change: Change<Person>,
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

/**
 * Returns the owners of new repositories by the keys of their names. Those that are missing are
 * created for an administrator.
 *
 * @throws as `createAll`
 */
async function ownersOf(change: Change<Person>, wanted: readonly NewRepository[]): Promise<Owners> {
  const isAdministrator = change.by.kind === 'administrator'
  const names = wanted.map(({ owner }) => owner)
  const owners = await (isAdministrator ? ensureOwners : lockOwners)(change, names)
  if (isAdministrator) return owners
  for (const name of names) {
    const owner = owners.get(nameKey(name))
    await checkOwnerAdmin(change, owner?.id ?? -1)
    if (owner) await checkCount(change.db, owner)
  }
  return owners
}

/** A row, with the id that was taken for it. */
type NewRow = Omit<Row, 'id'> & { id?: number }

function newRow(
  { owner, name, visibility, objectFormat, path, place, trustOwner }: NewRepository,
  owners: Owners,
): NewRow {
  const row = owners.get(nameKey(owner))
  if (!row) throw new Refusal(`there is no user or group "${owner}"`)
  return {
    ...(place && { id: place.id }),
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
    reporters: null,
  }
}

/** Inserts repositories, and returns them in their order. @throws AlreadyExists if a name is taken */
async function insertRows({ db }: Change, rows: readonly NewRow[], owners: Owners): Promise<Row[]> {
  const insertedRows = await db
    .insertInto('repositories')
    .values(rows)
    .onConflict((conflict) => conflict.columns(['owner_key', 'name_key']).doNothing())
    .returningAll()
    .execute()
  const keyOf = ({ owner_key, name_key }: NewRow) => `${owner_key}/${name_key}`
  const rowsByKey = new Map(insertedRows.map((row) => [keyOf(row), row]))
  return rows.map((row) => {
    const inserted = rowsByKey.get(keyOf(row))
    // Of two with the same name, only one was inserted.
    rowsByKey.delete(keyOf(row))
    const owner = owners.get(row.owner_key)?.name
    if (!inserted) throw new AlreadyExists(`there is already a repository ${owner}/${row.name}`)
    return inserted
  })
}

function readRow(folder: string, row: Row): Repository {
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
