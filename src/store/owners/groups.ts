import type { Kysely } from 'kysely'
import { isOwnerName, nameKey, OWNER_NAME_RULE } from '../../domain/names.ts'
import type { Permission } from '../../domain/permissions.ts'
import { AlreadyExists, checkUnchanged, Refusal } from '../../domain/refusal.ts'
import { checkOwnerAdmin } from '../access/administration.ts'
import { type Actor, ADMINISTRATOR, type Audit, getUserById, type Recorder } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import type { Tables } from '../tables.ts'
import { insertOwner, lockOwner, type Owner, ownsRepositories } from './owners.ts'

/** A member of a group. */
export interface Member {
  user: string
  permission: Permission
  /** See `AccessEntry`. */
  lockedAt: number | null
}

/** A user or a group, as somebody sees it. */
export interface OwnerView {
  id: number
  name: string
  isGroup: boolean
  /** What the user may do with all repositories of the owner; null: is no member. */
  permission: Permission | null
}

/** Returns functions that manage groups: owners of repositories who are no users. */
export function createGroupStore({ kysely }: Engine, audit: Audit) {
  const isUser = (db: Kysely<Tables>, name: string) =>
    db.selectFrom('users').select('id').where('name_key', '=', nameKey(name)).executeTakeFirst()

  /**
   * Returns a group, locked like `lockOwner`.
   *
   * @throws Refusal if there is none of this name
   */
  const lockGroup = async (db: Kysely<Tables>, name: string): Promise<Owner> => {
    const owner = await lockOwner(db, name)
    if (await isUser(db, name)) throw new Refusal(`"${name}" is a user, not a group`)
    if (!owner) throw new Refusal(`there is no group "${name}"`)
    return owner
  }

  return {
    /**
     * Creates a group.
     *
     * @throws AlreadyExists if the name is taken; Refusal if it is invalid
     */
    create(name: string): Promise<void> {
      if (!isOwnerName(name)) throw new Refusal(`"${name}" is not a valid group name: ${OWNER_NAME_RULE}`)
      return audit.transaction(async (db, record) => {
        if (await isUser(db, name)) throw new AlreadyExists(`there is already a user "${name}"`)
        const owner = await insertOwner(db, name)
        if (!owner) throw new AlreadyExists(`there is already a group "${name}"`)
        await record({ by: ADMINISTRATOR, action: 'group.created', group: owner.name, details: {} })
      })
    },

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

    /** Returns the members of a group by their names. @throws Refusal if there is none */
    async members(name: string): Promise<Member[]> {
      const owner = kysely.selectFrom('owners').select('id').where('name_key', '=', nameKey(name))
      const group = await owner.executeTakeFirst()
      if (!group || (await isUser(kysely, name))) throw new Refusal(`there is no group "${name}"`)
      return membersOf(kysely, group.id)
    },

    /**
     * Returns an owner, and what a user may do with all its repositories. An invalid name is that of
     * none.
     *
     * @param userId null for an anonymous user
     */
    async find(name: string, userId: number | null): Promise<OwnerView | null> {
      if (!isOwnerName(name)) return null
      const [owner] = await viewOwners(kysely, userId).where('owners.name_key', '=', nameKey(name)).execute()
      return owner ? { ...owner, isGroup: Boolean(owner.isGroup) } : null
    },

    /** Returns the owners whose repositories a user administers: the user, and groups. */
    async administeredBy(userId: number): Promise<OwnerView[]> {
      const rows = await viewOwners(kysely, userId).where('members.permission', '=', 'admin').execute()
      return rows.map((owner) => ({ ...owner, isGroup: Boolean(owner.isGroup) }))
    },

    /**
     * Sets what a member may do with all repositories of a group.
     *
     * @param permission null removes the member
     * @param expected what it may do before, as far as the caller knows; default: anything
     * @throws Refusal if nobody could administer the group from then on, unless an
     * administrator of the server does it; ServiceError as `checkOwnerAdmin`
     */
    setMember(
      name: string,
      userId: number,
      permission: Permission | null,
      by: Actor = ADMINISTRATOR,
      expected?: string,
    ): Promise<void> {
      return audit.transaction(async (db, record) => {
        // Changes of one group come one after the other: otherwise two admins could remove each
        // other.
        const group = await lockGroup(db, name)
        await checkOwnerAdmin(db, by, group.id)
        await setMember(db, record, by, group, userId, permission, expected)
        if (by.kind !== 'administrator' && !(await hasAdmin(db, group.id)))
          throw new Refusal(
            `nobody could administer ${group.name} then: give someone else the permission "admin" first`,
          )
      })
    },

    /**
     * Sets many members at once.
     *
     * @param replace whether to remove all others
     * @returns how many changed, and whether anyone can administer the group
     */
    setMembers(
      name: string,
      members: ReadonlyMap<number, Permission | null>,
      replace: boolean,
    ): Promise<{ changed: number; hasAdmin: boolean }> {
      return audit.transaction(async (db, record) => {
        const group = await lockGroup(db, name)
        const rows = await db
          .selectFrom('members')
          .select('user_id')
          .where('owner_id', '=', group.id)
          .execute()
        const others = replace ? rows.map(({ user_id }) => [user_id, null] as const) : []
        let changes = 0
        for (const [userId, permission] of new Map([...others, ...members]))
          if (await setMember(db, record, ADMINISTRATOR, group, userId, permission)) changes++
        return { changed: changes, hasAdmin: await hasAdmin(db, group.id) }
      })
    },

    /**
     * Deletes a group with its members and reserved names.
     *
     * @returns the members it had
     * @throws Refusal if there is none, or while it owns repositories
     */
    delete(name: string): Promise<Member[]> {
      return audit.transaction(async (db, record) => {
        const group = await lockGroup(db, name)
        if (await ownsRepositories(db, group.id))
          throw new Refusal(`"${group.name}" owns repositories; delete them, or rename them to another owner`)
        const members = await membersOf(db, group.id)
        await db.deleteFrom('owners').where('id', '=', group.id).execute()
        await record({ by: ADMINISTRATOR, action: 'group.deleted', group: group.name, details: {} })
        return members
      })
    },
  }
}

/** Returns a query of owners with the permission of a user. */
function viewOwners(db: Kysely<Tables>, userId: number | null) {
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

async function membersOf(db: Kysely<Tables>, ownerId: number): Promise<Member[]> {
  const rows = await db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select(['users.name as user', 'permission', 'locked_at as lockedAt'])
    .where('owner_id', '=', ownerId)
    .orderBy('users.name_key')
    .execute()
  return rows
}

/** Stores a member and the event. Returns false, and does nothing, if it is stored already. */
async function setMember(
  db: Kysely<Tables>,
  record: Recorder,
  by: Actor,
  group: Owner,
  userId: number,
  permission: Permission | null,
  expected?: string,
): Promise<boolean> {
  const before = await db
    .selectFrom('members')
    .select('permission')
    .where('owner_id', '=', group.id)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  const from = before?.permission ?? null
  if (from === permission) return false
  const user = await getUserById(db, userId)
  checkUnchanged(`the access of ${user.name}`, from ?? 'none', expected)
  if (permission === null)
    await db.deleteFrom('members').where('owner_id', '=', group.id).where('user_id', '=', user.id).execute()
  else
    await db
      .insertInto('members')
      .values({ owner_id: group.id, user_id: user.id, permission })
      .onConflict((conflict) => conflict.columns(['owner_id', 'user_id']).doUpdateSet({ permission }))
      .execute()
  const details = { user: user.name, access: permission ?? 'none', from: from ?? 'none' }
  await record({ by, action: 'group.member', group: group.name, subject: user, details })
  return true
}

/** Returns whether a member with `admin` is not locked. */
async function hasAdmin(db: Kysely<Tables>, ownerId: number): Promise<boolean> {
  const admin = await db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select('user_id')
    .where('owner_id', '=', ownerId)
    .where('permission', '=', 'admin')
    .where('locked_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return admin !== undefined
}
