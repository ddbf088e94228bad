import { sql } from 'kysely'
import type { Permission } from '../../domain/permissions.ts'

/** Why a user has a permission: owns the repository, is a member of the group that does, … */
export type Reason = 'owner' | 'member' | 'granted' | 'public'

/** Joins the row of `members` of `users`, of the owner of `repositories`. */
export const ofMember = sql<boolean>`members.owner_id = repositories.owner_id
  and members.user_id = users.id`
/** Joins the row of `collaborators` of `users`, of `repositories`. */
export const ofCollaborator = sql<boolean>`collaborators.repository_id = repositories.id
  and collaborators.user_id = users.id`

/**
 * Decides what a user may do with a repository, in a query of `repositories` and `users` that joins
 * `members` and `collaborators`, or null. No other code decides that: others compare it with what is
 * needed (`allows`). `checkOwnerAdmin` asks who may add to all of an owner's repositories, which no
 * grant of a single one decides.
 *
 * @param included whether the caller's credential gives access to the repository, if the user has
 * any
 * @param highest what `admin` is for the credential
 */
export function accessRules(included = sql<boolean>`true`, highest = sql<Permission>`'admin'`) {
  const permission = sql<Permission | null>`case when ${included} then case
    when 'admin' in (members.permission, collaborators.granted) then ${highest}
    when 'write' in (members.permission, collaborators.granted) then 'write'
    else coalesce(members.permission, collaborators.granted) end end`
  return {
    permission,
    mayRead: sql<boolean>`(repositories.visibility = 'public' or ${included}
      and coalesce(members.permission, collaborators.granted) is not null)`,
    /** Needs `users`, and `owners` of the repository. */
    reason: sql<Reason>`case
      when members.permission = ${permission} then
        case when owners.name_key = users.name_key then 'owner' else 'member' end
      when collaborators.granted is not null then 'granted' else 'public' end`,
  }
}
