import { nameKey } from '../../domain/names.ts'
import { ADMINISTRATOR, type Audit, getUserById } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import type { Permission } from '../tables.ts'
import { fullNameOf, type RepositoryStore } from './repositories.ts'

/** Who has access to a repository. */
export interface AccessEntry {
  /** null for everyone. */
  user: string | null
  permission: Permission
  /** Owns it, was granted access, or anyone may read it because it is public. */
  reason: 'owner' | 'granted' | 'public'
  /**
   * When the user was locked, in seconds since the epoch; null: not locked. A locked user has no
   * access meanwhile.
   */
  lockedAt: number | null
}

/** Returns functions that manage the access of users to repositories. */
export function createCollaboratorStore(
  { kysely }: Engine,
  { get }: Pick<RepositoryStore, 'get'>,
  audit: Audit,
) {
  return {
    /** Sets a user's access. @param permission null to remove it */
    set(owner: string, name: string, userId: number, permission: Permission | null): Promise<void> {
      return audit.transaction(async (db, record) => {
        const repository = await get(owner, name, db)
        const user = await getUserById(db, userId)
        const key = { repository_id: repository.id, user_id: user.id }
        const before = await db
          .deleteFrom('collaborators')
          .where('repository_id', '=', key.repository_id)
          .where('user_id', '=', key.user_id)
          .returning('permission')
          .executeTakeFirst()
        if (permission !== null)
          await db
            .insertInto('collaborators')
            .values({ ...key, permission })
            .onConflict((conflict) =>
              conflict.columns(['repository_id', 'user_id']).doUpdateSet({ permission }),
            )
            .execute()
        if ((before?.permission ?? null) === permission) return
        await record({
          by: ADMINISTRATOR,
          action: 'repository.access',
          repository: fullNameOf(repository),
          subject: user,
          details: { user: user.name, access: permission ?? 'none' },
        })
      })
    },

    /**
     * Returns the names, OWNER/NAME, of the repositories to which a user has access, and why, in
     * their order.
     */
    async ofUser(user: {
      id: number
      name_key: string
    }): Promise<({ name: string } & Pick<AccessEntry, 'permission' | 'reason'>)[]> {
      const rows = await kysely
        .selectFrom('repositories')
        .leftJoin('collaborators', (join) =>
          join
            .onRef('collaborators.repository_id', '=', 'repositories.id')
            .on('collaborators.user_id', '=', user.id),
        )
        .select(['owner', 'owner_key', 'name', 'permission'])
        .where(({ or, eb }) =>
          or([
            eb('owner_key', '=', user.name_key),
            eb('permission', 'is not', null),
            eb('visibility', '=', 'public'),
          ]),
        )
        .orderBy('owner_key')
        .orderBy('repositories.name_key')
        .execute()
      return rows.map(({ owner_key, permission, ...repository }) => {
        const name = fullNameOf(repository)
        if (owner_key === user.name_key) return { name, permission: 'write', reason: 'owner' }
        return permission
          ? { name, permission, reason: 'granted' }
          : { name, permission: 'read', reason: 'public' }
      })
    },

    /** Returns who has access to a repository, and why. The owner comes first. */
    async list(owner: string, name: string): Promise<AccessEntry[]> {
      const repository = await get(owner, name)
      const ownerKey = nameKey(repository.owner)
      const everyone = { user: null, permission: 'read', reason: 'public', lockedAt: null } as const
      const users = await kysely
        .selectFrom('users')
        .leftJoin('collaborators', (join) =>
          join
            .onRef('collaborators.user_id', '=', 'users.id')
            .on('collaborators.repository_id', '=', repository.id),
        )
        .select(['users.name', 'users.name_key', 'users.locked_at', 'collaborators.permission'])
        .where(({ or, eb }) => or([eb('users.name_key', '=', ownerKey), eb('permission', 'is not', null)]))
        .orderBy(({ eb }) => eb('users.name_key', '=', ownerKey), 'desc')
        .orderBy('users.name_key')
        .execute()
      const entries = users.map(({ name, name_key, locked_at: lockedAt, permission }): AccessEntry => {
        // A permission of the owner changes nothing.
        return permission === null || name_key === ownerKey
          ? { user: name, permission: 'write', reason: 'owner', lockedAt }
          : { user: name, permission, reason: 'granted', lockedAt }
      })
      return repository.visibility === 'public' ? [...entries, everyone] : entries
    },
  }
}
