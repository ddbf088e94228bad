import type { Permission } from '../../domain/permissions.ts'
import { Refusal } from '../../domain/refusal.ts'
import { checkOwnerAdmin } from '../access/administration.ts'
import { createGrants, type GrantKind } from '../access/grants.ts'
import type { Reading } from '../engine.ts'
import type { Queries } from '../tables.ts'
import { findGroup, lockGroup } from './owners.ts'

/** A member of a group. */
export interface Member {
  user: string
  permission: Permission
  /** See `AccessEntry`. */
  lockedAt: number | null
}

const memberGrants: GrantKind<string> = {
  ownerOf: (group) => group,
  keyOf: (group) => group,
  find: findGroup,

  async open(change, name) {
    // Changes of one group come one after the other: otherwise two admins could remove each other.
    const group = await lockGroup(change, name)
    await checkOwnerAdmin(change, group.id)
    return group
  },

  async read(db, ownerId, userId) {
    const row = await db
      .selectFrom('members')
      .select('permission')
      .where('owner_id', '=', ownerId)
      .where('user_id', '=', userId)
      .executeTakeFirst()
    return row?.permission ?? null
  },

  write(db, ownerId, userId, permission) {
    if (permission === null)
      return db.deleteFrom('members').where('owner_id', '=', ownerId).where('user_id', '=', userId).execute()
    return db
      .insertInto('members')
      .values({ owner_id: ownerId, user_id: userId, permission })
      .onConflict((conflict) => conflict.columns(['owner_id', 'user_id']).doUpdateSet({ permission }))
      .execute()
  },

  event: ({ name }, subject, details) => ({ action: 'group.member', group: name, subject, details }),

  async check({ db }, { id, name }) {
    if (!(await hasAdmin(db, id)))
      throw new Refusal(
        `nobody could administer ${name} then: give someone else the permission "admin" first`,
      )
  },
}

/** Returns functions that manage the members of groups, by the names of the groups. */
export function createMemberStore({ kysely }: Reading) {
  return {
    ...createGrants(kysely, memberGrants),

    /** Returns the members of a group by their names. @throws Refusal if there is none */
    async list(group: string): Promise<Member[]> {
      const { id } = await findGroup(kysely, group)
      return membersOf(kysely, id)
    },
  }
}

/** Returns the members of a group by their names. */
export function membersOf(db: Queries, ownerId: number): Promise<Member[]> {
  return db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select(['users.name as user', 'permission', 'locked_at as lockedAt'])
    .where('owner_id', '=', ownerId)
    .orderBy('users.name_key')
    .execute()
}

/** Returns whether a member with `admin` is not locked. */
async function hasAdmin(db: Queries, ownerId: number): Promise<boolean> {
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
