import type { Kysely } from 'kysely'
import { allows } from '../../domain/permissions.ts'
import { ServiceError } from '../../errors.ts'
import type { Actor } from '../audit/audit.ts'
import type { Tables } from '../tables.ts'
import { repositoriesFor } from './access.ts'

/**
 * Checks, in the transaction of a change, that the actor may administer a repository.
 *
 * @throws ServiceError unless it is an administrator of the server, or a user with `admin` who
 * uses no token
 */
export async function checkRepositoryAdmin(
  db: Kysely<Tables>,
  by: Actor,
  repositoryId: number,
): Promise<void> {
  const userId = sessionUser(by)
  if (userId === 'administrator') return
  const row = await repositoriesFor(db, userId).where('repositories.id', '=', repositoryId).executeTakeFirst()
  if (!row) throw new ServiceError('repository_unknown')
  if (!allows(row.permission, 'admin')) throw new ServiceError('not_admin')
}

/** Checks the same for an owner, and for all its repositories. */
export async function checkOwnerAdmin(db: Kysely<Tables>, by: Actor, ownerId: number): Promise<void> {
  const userId = sessionUser(by)
  if (userId === 'administrator') return
  const member = await db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select('permission')
    .where('owner_id', '=', ownerId)
    .where('user_id', '=', userId ?? -1)
    .where('locked_at', 'is', null)
    .executeTakeFirst()
  if (!allows(member?.permission ?? null, 'admin')) throw new ServiceError('not_admin')
}

/** Returns the user who acts without a token; null for other clients. */
function sessionUser(by: Actor): number | null | 'administrator' {
  if (by.kind === 'administrator') return by.kind
  return by.kind === 'user' && by.token === undefined ? by.user.id : null
}
