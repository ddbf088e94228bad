import type { Administrator } from '../../domain/actors.ts'
import { isOwnerName, nameKey, OWNER_NAME_RULE } from '../../domain/names.ts'
import type { Permission } from '../../domain/permissions.ts'
import { AlreadyExists, Refusal } from '../../domain/refusal.ts'
import type { Change } from '../audit/change.ts'
import type { Reading } from '../engine.ts'
import type { Queries } from '../tables.ts'
import { type Member, membersOf } from './members.ts'
import { insertOwner, isUser, lockGroup, ownsRepositories } from './owners.ts'

/** A user or a group, as somebody sees it. */
export interface OwnerView {
  id: number
  name: string
  isGroup: boolean
  /** What the user may do with all repositories of the owner; null: is no member. */
  permission: Permission | null
}

/** Returns functions that manage groups: owners of repositories who are no users. */
export function createGroupStore({ kysely }: Reading) {
  return {
    create: createGroup,
    delete: deleteGroup,

    /** Returns the groups by their names. */
    list() {
      return kysely
        .selectFrom('owners')
        .select(['name', 'created_at as createdAt'])
        .select(({ selectFrom, fn }) => [
          selectFrom('members')
            .select(fn.countAll<number>().as('count'))
            .whereRef('owner_id', '=', 'owners.id')
            .$asScalar()
            .as('members'),
          selectFrom('repositories')
            .select(fn.countAll<number>().as('count'))
            .whereRef('owner_id', '=', 'owners.id')
            .$asScalar()
            .as('repositories'),
        ])
        .where('name_key', 'not in', kysely.selectFrom('users').select('name_key'))
        .orderBy('name_key')
        .execute()
    },

    /**
     * Returns an owner, and what a user may do with all its repositories. An invalid name is that of
     * none.
     *
     * @param userId null for an anonymous user
     */
    async find(name: string, userId: number | null): Promise<OwnerView | null> {
      if (!isOwnerName(name)) return null
      const named = viewOwners(kysely, userId).where('owners.name_key', '=', nameKey(name))
      return (await readOwners(named))[0] ?? null
    },

    /** Returns the owners whose repositories a user administers: the user, and groups. */
    administeredBy: (userId: number) =>
      readOwners(viewOwners(kysely, userId).where('members.permission', '=', 'admin')),
  }
}

/**
 * Creates a group.
 *
 * @throws AlreadyExists if the name is taken; Refusal if it is invalid
 */
async function createGroup(change: Change<Administrator>, name: string): Promise<void> {
  if (!isOwnerName(name)) throw new Refusal(`"${name}" is not a valid group name: ${OWNER_NAME_RULE}`)
  if (await isUser(change.db, name)) throw new AlreadyExists(`there is already a user "${name}"`)
  const owner = await insertOwner(change, name)
  if (!owner) throw new AlreadyExists(`there is already a group "${name}"`)
  await change.record({ action: 'group.created', group: owner.name, details: {} })
}

/**
 * Deletes a group with its members and reserved names.
 *
 * @returns the members it had
 * @throws Refusal if there is none, or while it owns repositories
 */
async function deleteGroup(change: Change<Administrator>, name: string): Promise<Member[]> {
  const { db } = change
  const group = await lockGroup(change, name)
  if (await ownsRepositories(db, group.id))
    throw new Refusal(`"${group.name}" owns repositories; delete them, or rename them to another owner`)
  const members = await membersOf(db, group.id)
  await db.deleteFrom('owners').where('id', '=', group.id).execute()
  await change.record({ action: 'group.deleted', group: group.name, details: {} })
  return members
}

/** Returns a query of owners with the permission of a user. */
function viewOwners(db: Queries, userId: number | null) {
  return db
    .selectFrom('owners')
    .leftJoin('users', 'users.name_key', 'owners.name_key')
    .leftJoin('members', (join) =>
      join.onRef('members.owner_id', '=', 'owners.id').on('members.user_id', '=', userId ?? -1),
    )
    .select(['owners.id', 'owners.name', 'members.permission'])
    .select(({ eb }) => eb('users.id', 'is', null).as('isGroup'))
    .orderBy('owners.name_key')
}

async function readOwners(query: ReturnType<typeof viewOwners>): Promise<OwnerView[]> {
  // SQLite answers with a number.
  return (await query.execute()).map((owner) => ({ ...owner, isGroup: Boolean(owner.isGroup) }))
}
