import type { Administrator } from '../../domain/actors.ts'
import { nameKey } from '../../domain/names.ts'
import { Refusal } from '../../domain/refusal.ts'
import { type AccessChange, listChangesOfDeletion } from '../access/access-list.ts'
import { lockOwners } from '../access/locked-rows.ts'
import type { Change, Transact } from '../audit/change.ts'
import { deleteMostChildren } from '../delete-children.ts'
import { findOwner, type Owner, ownsRepositories } from '../owners/owners.ts'
import { checkMove, moveRepositories } from '../repositories/moves.ts'
import { DELETE_STEP, INSERTED_ROWS } from '../steps.ts'
import type { Queries } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { revokeSome, revokeTokens } from './tokens.ts'
import { countTokens, deleteSessions, findUser, getUser, lockUser, type User } from './user-rows.ts'

/** Who is deleted, and who gets the repositories. */
interface Deletion {
  user: User
  /** The owner of the user's name; undefined: there is none. */
  owner: Owner | undefined
  newOwner: Owner | undefined
}

/** How many rows of a user were deleted. */
interface Ended {
  tokens: number
  sessions: number
}

/**
 * Deletes a user with all tokens, sessions and permissions. Statuses stay. A name of which
 * repository names are reserved stays taken: it becomes a group's.
 *
 * One change transfers the repositories and deletes the user. Of very many repositories, grants,
 * tokens or sessions, there are several, between which others can write:
 *
 * ```
 *   present ── first repositories ──▶ locked ── other repositories ── rows, in steps ──▶ deleted
 * ```
 *
 * What may be refused comes before any row of the user is removed. If it is interrupted, the user
 * stays locked, and the next call continues.
 *
 * @param transferTo the user or group who gets the repositories
 * @returns how many repositories were transferred, and the access that changes by all of it, as it
 * was stored when the deletion began
 * @throws Refusal if there is no such user; while the user owns repositories without `transferTo`; if
 * that owner does not exist, or already has one of the same name. Nothing was changed, unless others
 * wrote between two changes, for example deleted that owner: then the user stays locked, and what
 * was transferred stays transferred. Call it again, with another owner
 */
export async function deleteUser(
  db: Queries,
  transact: Transact<Administrator>,
  name: string,
  transferTo?: string,
): Promise<{ moved: number; changes: AccessChange[] }> {
  const { user, owner, newOwner } = await checkDeletion(
    db,
    await getUser(db, name),
    (name) => findOwner(db, name),
    transferTo,
  )
  const changes = await listChangesOfDeletion(db, user, owner, newOwner)
  let moved = 0

  /** Transfers all repositories, and then deletes the user if so many rows were deleted before. */
  const transferAll = async (ended: Ended | null) => {
    for (let isLast = false; !isLast; ) {
      const step = await transact(async (change) => {
        const deletion = await lockDeletion(change, name, transferTo)
        const moves = await transfer(change, deletion)
        const isLast = !deletion.owner || !(await ownsRepositories(change.db, deletion.owner.id))
        if (isLast && ended) await remove(change, deletion, ended)
        else await lockOut(change, deletion.user)
        return { moves, isLast }
      })
      moved += step.moves
      isLast = step.isLast
    }
  }

  if (!(await hasMany(db, user.id))) await transferAll({ tokens: 0, sessions: 0 })
  else {
    await transferAll(null)
    const grants = { table: 'collaborators', parent: 'user_id', order: 'repository_id' } as const
    await deleteMostChildren(transact, grants, user.id)
    const tokens = await revokeTokens(transact, user.id)
    const sessions = { table: 'sessions', parent: 'user_id', order: 'hash' } as const
    await transferAll({ tokens, sessions: await deleteMostChildren(transact, sessions, user.id) })
  }
  return { moved, changes }
}

/** Returns whether a user has more rows than one change should delete. */
async function hasMany(db: Queries, userId: number): Promise<boolean> {
  if ((await countTokens(db, userId)) > INSERTED_ROWS) return true
  for (const table of ['collaborators', 'sessions'] as const) {
    const rows = db.selectFrom(table).select('user_id').where('user_id', '=', userId)
    if (await rows.limit(1).offset(DELETE_STEP).executeTakeFirst()) return true
  }
  return false
}

/** Locks a user who is about to be deleted, so that nothing of the user is used or added. */
async function lockOut(change: Change, user: User): Promise<void> {
  if (user.lockedAt !== null) return
  await change.db.updateTable('users').set({ locked_at: nowInSeconds() }).where('id', '=', user.id).execute()
  await change.record({ action: 'user.locked', subject: user, details: { sessions: 0 } })
}

/** Returns who is deleted and who gets the repositories, locked. @throws Refusal as `deleteUser` */
async function lockDeletion(change: Change, name: string, transferTo?: string): Promise<Deletion> {
  const user = await lockUser(change, name, 'update')
  const owners = await lockOwners(change, transferTo === undefined ? [name] : [name, transferTo])
  return checkDeletion(change.db, user, async (name) => owners.get(nameKey(name)), transferTo)
}

/** @throws Refusal as `deleteUser` */
async function checkDeletion(
  db: Queries,
  user: User,
  find: (name: string) => Promise<Owner | undefined>,
  transferTo?: string,
): Promise<Deletion> {
  const { name } = user
  const owner = await find(name)
  const newOwner = transferTo === undefined ? undefined : await find(transferTo)
  if (transferTo !== undefined && !newOwner) throw new Refusal(`there is no user or group "${transferTo}"`)
  if (newOwner && newOwner.id === owner?.id)
    throw new Refusal(`"${name}" is the user to be deleted; its repositories need another owner`)
  if (owner && !newOwner && (await ownsRepositories(db, owner.id)))
    throw new Refusal(
      `"${name}" owns repositories; delete those first, or give them to another owner with --transfer-to`,
    )
  if (owner && newOwner) await checkMove(db, owner, newOwner)
  return { user, owner, newOwner }
}

/** Transfers repositories, and records that. @returns how many; at most `MOVE_STEP` */
async function transfer(change: Change, { owner, newOwner }: Deletion): Promise<number> {
  if (!owner || !newOwner) return 0
  const moves = await moveRepositories(change, owner, newOwner)
  const subject = await findUser(change.db, newOwner.name)
  const event = { action: 'repository.transferred', ...(subject && { subject }) } as const
  await change.record(
    ...moves.map(({ id, from, to }) => ({ ...event, repository: { id, name: to }, details: { from } })),
  )
  return moves.length
}

/**
 * Deletes the rows of a user, and records that.
 *
 * @param ended how many tokens and sessions were deleted before
 */
async function remove(change: Change, { user, owner, newOwner }: Deletion, ended: Ended): Promise<void> {
  const { db } = change
  let { tokens } = ended
  for (let count = INSERTED_ROWS; count === INSERTED_ROWS; tokens += count)
    count = await revokeSome(change, user)
  const sessions = ended.sessions + (await deleteSessions(change, user.id))
  await db.deleteFrom('users').where('id', '=', user.id).execute()
  if (owner)
    await db
      .deleteFrom('owners')
      .where('id', '=', owner.id)
      .where('id', 'not in', db.selectFrom('reserved_names').select('owner_id'))
      .execute()
  const details = { tokens, sessions, ...(newOwner && { transferred_to: newOwner.name }) }
  await change.record({ action: 'user.deleted', subject: user, details })
}
