import type { Person } from '../../domain/actors.ts'
import { isName, isOwnerName, nameKey } from '../../domain/names.ts'
import { AlreadyExists, Refusal } from '../../domain/refusal.ts'
import { chunksOf } from '../../util/lists.ts'
import { accessRules, ofCollaborator, ofMember } from '../access/access-rules.ts'
import { checkOwnerAdmin, type RepositoryName } from '../access/administration.ts'
import { lockOwner } from '../access/locked-rows.ts'
import type { Change } from '../audit/change.ts'
import { isPresent } from '../deleted-repositories.ts'
import type { Reading } from '../engine.ts'
import type { Owner } from '../owners/owners.ts'
import { INSERTED_ROWS } from '../steps.ts'
import type { Queries } from '../tables.ts'
import { formatTime, nowInSeconds } from '../time.ts'

/** Maximum number of names that stay reserved for an owner. */
const MAX_RESERVED_NAMES = 100

const { mayRead } = accessRules()

/** A name that a repository had. */
export interface ReservedName {
  /** OWNER/NAME */
  name: string
  /** What the repository is called now; null if it was deleted, or the reader may not see it. */
  repository: string | null
  isHidden: boolean
  since: string
}

/** Returns functions that list and release reserved names. */
export function createReservedNames({ kysely }: Reading) {
  return {
    release: releaseName,

    /**
     * Returns the reserved names of an owner, or of all.
     *
     * @param readerId the user who reads them; default: an administrator
     */
    async list(owner?: string, readerId?: number): Promise<ReservedName[]> {
      const rows = await kysely
        .selectFrom('reserved_names')
        .innerJoin('owners', 'owners.id', 'reserved_names.owner_id')
        .leftJoin('repositories', (join) =>
          join.onRef('repositories.id', '=', 'reserved_names.repository_id').on(isPresent),
        )
        .leftJoin('users', (join) => join.on('users.id', '=', readerId ?? -1))
        .leftJoin('members', (join) => join.on(ofMember))
        .leftJoin('collaborators', (join) => join.on(ofCollaborator))
        .select(['owners.name as owner', 'reserved_names.name', 'reserved_names.created_at'])
        .select(['repositories.owner as now_owner', 'repositories.name as now_name'])
        .select(mayRead.as('may_read'))
        .$if(owner !== undefined, (query) => query.where('owners.name_key', '=', nameKey(owner ?? '')))
        .orderBy('owners.name_key')
        .orderBy('reserved_names.name_key')
        .execute()
      return rows.map((row) => {
        const isHidden = row.now_owner !== null && readerId !== undefined && !row.may_read
        return {
          name: `${row.owner}/${row.name}`,
          repository: row.now_owner === null || isHidden ? null : `${row.now_owner}/${row.now_name}`,
          isHidden,
          since: formatTime(row.created_at),
        }
      })
    },
  }
}

/**
 * Releases a reserved name, which another repository may get from then on.
 *
 * @throws Refusal if it is not reserved; ServiceError as `checkOwnerAdmin`
 */
async function releaseName(change: Change<Person>, { owner, name }: RepositoryName): Promise<void> {
  const row = isOwnerName(owner) ? await lockOwner(change, owner) : undefined
  await checkOwnerAdmin(change, row?.id ?? -1)
  const released = await change.db
    .deleteFrom('reserved_names')
    .where('owner_id', '=', row?.id ?? -1)
    .where('name_key', '=', isName(name) ? nameKey(name) : '')
    .returning('name')
    .executeTakeFirst()
  if (!row || !released) throw new Refusal(`${owner}/${name} is not a reserved name`)
  const repository = { id: null, name: `${row.name}/${released.name}` }
  await change.record({ action: 'repository.name-released', repository, details: {} })
}

/**
 * Checks that a repository may get a name, of an owner that is locked. One that had it may have it
 * again.
 *
 * @throws AlreadyExists; Refusal if the name is reserved
 */
export async function checkFree(
  { db }: Change,
  owner: Owner,
  name: string,
  repositoryId: number,
): Promise<void> {
  const holder = db
    .selectFrom('repositories')
    .select('id')
    .where('owner_key', '=', owner.name_key)
    .where('name_key', '=', nameKey(name))
  if (await holder.executeTakeFirst())
    throw new AlreadyExists(`there is already a repository ${owner.name}/${name}`)
  const row = await db
    .selectFrom('reserved_names')
    .select('repository_id')
    .where('owner_id', '=', owner.id)
    .where('name_key', '=', nameKey(name))
    .executeTakeFirst()
  if (!row) return
  if (row.repository_id !== repositoryId) throw reservedName(owner.name, name)
  await db
    .deleteFrom('reserved_names')
    .where('owner_id', '=', owner.id)
    .where('name_key', '=', nameKey(name))
    .execute()
}

/**
 * Checks that no new repository has a name that is reserved. Their owners are locked.
 *
 * @throws Refusal
 */
export async function checkUnreserved({ db }: Change, created: readonly { id: number }[]): Promise<void> {
  for (const chunk of chunksOf(created, INSERTED_ROWS)) {
    const reserved = await db
      .selectFrom('repositories')
      .innerJoin('reserved_names', (join) =>
        join
          .onRef('reserved_names.owner_id', '=', 'repositories.owner_id')
          .onRef('reserved_names.name_key', '=', 'repositories.name_key'),
      )
      .innerJoin('owners', 'owners.id', 'repositories.owner_id')
      .select(['owners.name as owner', 'repositories.name'])
      .where(
        'repositories.id',
        'in',
        chunk.map(({ id }) => id),
      )
      .orderBy('repositories.id')
      .limit(1)
      .executeTakeFirst()
    if (reserved) throw reservedName(reserved.owner, reserved.name)
  }
}

export function reservedName(owner: string, name: string): Refusal {
  return new Refusal(
    `${owner}/${name} is reserved: clients of the repository that had this name may still use it. ` +
      `Release the name first, on the page of ${owner} or with "repo release"`,
  )
}

/** @throws Refusal if an owner has too many reserved names */
export async function checkReserved(db: Queries, owner: Owner): Promise<void> {
  const { names } = await db
    .selectFrom('reserved_names')
    .select((eb) => eb.fn.countAll<number>().as('names'))
    .where('owner_id', '=', owner.id)
    .executeTakeFirstOrThrow()
  if (names >= MAX_RESERVED_NAMES)
    throw new Refusal(
      `"${owner.name}" has ${names} reserved names, and at most ${MAX_RESERVED_NAMES} are allowed. ` +
        'Release some first, on the page of the owner or with "repo release"',
    )
}

/** Reserves the name of a repository for its owner. */
export async function reserve(
  { db }: Change,
  owner: Owner,
  { id, name }: { id: number; name: string },
): Promise<void> {
  const values = { owner_id: owner.id, name, name_key: nameKey(name), repository_id: id }
  await db
    .insertInto('reserved_names')
    .values({ ...values, created_at: nowInSeconds() })
    .execute()
}
