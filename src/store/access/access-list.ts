import { sql } from 'kysely'
import type { Permission } from '../../domain/permissions.ts'
import type { Queries } from '../tables.ts'
import { accessRules, ofCollaborator, ofMember, type Reason } from './access-rules.ts'

/** Who has access to a repository, and why. */
export interface AccessEntry {
  repositoryId: number
  /** OWNER/NAME */
  repository: string
  /** null for everyone. */
  user: string | null
  permission: Permission
  reason: Reason
  /**
   * When the user was locked, in seconds since the epoch; null: not locked. A locked user has no
   * access meanwhile.
   */
  lockedAt: number | null
}

const { permission, reason } = accessRules()

/**
 * Returns the access of users to repositories by the names of both, and of everyone to public ones.
 * An owner comes first among the users of a repository, and everyone last. Where an owner or a
 * member was also granted as much or less, that is a second entry: it remains when the membership
 * ends.
 *
 * @param only of these repositories, or of this user: that a repository is public is listed for a
 * user where nothing else gives access
 */
export async function listAccess(
  db: Queries,
  { repositoryIds, userId }: { repositoryIds?: readonly number[]; userId?: number } = {},
): Promise<AccessEntry[]> {
  const granted = db.selectFrom('collaborators').select(['repository_id', 'user_id'])
  const owning = db
    .selectFrom('repositories')
    .innerJoin('members', 'members.owner_id', 'repositories.owner_id')
    .select(['repositories.id as repository_id', 'members.user_id'])
  const pairs = (
    repositoryIds
      ? granted
          .where('repository_id', 'in', repositoryIds)
          .union(owning.where('repositories.id', 'in', repositoryIds))
      : granted.union(owning)
  ).as('pairs')
  const rows = await db
    .selectFrom('repositories')
    .leftJoin(pairs, (join) =>
      join
        .onRef('pairs.repository_id', '=', 'repositories.id')
        .$call((on) => (userId === undefined ? on : on.on('pairs.user_id', '=', userId))),
    )
    .leftJoin('users', 'users.id', 'pairs.user_id')
    .leftJoin('owners', 'owners.id', 'repositories.owner_id')
    .leftJoin('members', (join) => join.on(ofMember))
    .leftJoin('collaborators', (join) => join.on(ofCollaborator))
    .select(['repositories.id', 'repositories.owner', 'repositories.name', 'repositories.visibility'])
    .select(['users.name as user', 'users.locked_at', 'collaborators.granted'])
    .select([permission.as('permission'), reason.as('reason')])
    .$if(repositoryIds !== undefined, (query) => query.where('repositories.id', 'in', repositoryIds ?? []))
    .orderBy('repositories.owner_key')
    .orderBy('repositories.name_key')
    .orderBy(sql`case when ${reason} = 'owner' then 0 else 1 end`)
    .orderBy('users.name_key')
    .execute()

  const entries: AccessEntry[] = []
  for (const [index, row] of rows.entries()) {
    const { id, owner, name, visibility, user, locked_at: lockedAt, permission } = row
    const entry = { repositoryId: id, repository: `${owner}/${name}` }
    if (user !== null && permission !== null)
      entries.push({ ...entry, user, permission, reason: row.reason, lockedAt })
    if (user !== null && row.granted !== null && row.reason !== 'granted')
      entries.push({ ...entry, user, permission: row.granted, reason: 'granted', lockedAt })
    const isLast = rows[index + 1]?.id !== id
    if (visibility === 'public' && isLast && (userId === undefined || user === null))
      entries.push({ ...entry, user: null, permission: 'read', reason: 'public', lockedAt: null })
  }
  return entries
}

/** A change of the access of a user to a repository. null: none. */
export interface AccessChange {
  user: string
  /** As it is named since then. */
  repository: string
  from: Permission | null
  to: Permission | null
}

/**
 * Returns the access that changes when a user is deleted and another owner gets the repositories
 * that `owner`, the owner of the user's name, has. That a repository is public is no access.
 */
export async function listChangesOfDeletion(
  db: Queries,
  user: { id: number; name: string },
  owner: { id: number } | undefined,
  newOwner: { id: number; name: string } | undefined,
): Promise<AccessChange[]> {
  const lost = await db
    .selectFrom('repositories')
    .innerJoin('users', (join) => join.on('users.id', '=', user.id))
    .leftJoin('members', (join) => join.on(ofMember))
    .leftJoin('collaborators', (join) => join.on(ofCollaborator))
    .select(['repositories.owner_id', 'repositories.owner', 'repositories.name', permission.as('permission')])
    .where((eb) =>
      eb.or([eb('members.user_id', 'is not', null), eb('collaborators.user_id', 'is not', null)]),
    )
    .execute()
  const gained = await db
    .selectFrom('repositories')
    // The members that the repositories have then.
    .innerJoin('members', (join) => join.on('members.owner_id', '=', newOwner?.id ?? -1))
    .innerJoin('users', 'users.id', 'members.user_id')
    .leftJoin('collaborators', (join) => join.on(ofCollaborator))
    .select(['repositories.name', 'users.name as user', 'collaborators.granted', permission.as('permission')])
    .where('repositories.owner_id', '=', owner?.id ?? -1)
    .where('users.id', '<>', user.id)
    .where(sql<boolean>`${permission} is distinct from collaborators.granted`)
    .execute()

  const changes: AccessChange[] = [
    ...lost.map(({ owner_id, name, permission, ...before }) => {
      const ownerName = newOwner && owner_id === owner?.id ? newOwner.name : before.owner
      return { user: user.name, repository: `${ownerName}/${name}`, from: permission, to: null }
    }),
    ...gained.map(({ user, name, granted, permission }) => {
      return { user, repository: `${newOwner?.name}/${name}`, from: granted, to: permission }
    }),
  ]
  const order = ({ user, repository }: AccessChange) => `${user} ${repository}`
  return changes.sort((a, b) => (order(a) < order(b) ? -1 : 1))
}
