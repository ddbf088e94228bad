import type { Selectable } from 'kysely'
import { nameKey } from '../../domain/names.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { NamedUser } from '../audit/audit.ts'
import type { Change } from '../audit/change.ts'
import type { Queries, Tables } from '../tables.ts'
import { nowInSeconds } from '../time.ts'

export type Owner = Selectable<Tables['owners']>

/** Returns the owner of a name. */
export function findOwner(db: Queries, name: string): Promise<Owner | undefined> {
  return db.selectFrom('owners').selectAll().where('name_key', '=', nameKey(name)).executeTakeFirst()
}

/**
 * Returns the owner of a name, locked until the end of the transaction. On SQLite, transactions
 * that write run one after the other.
 */
export async function lockOwner({ db }: Change, name: string): Promise<Owner | undefined> {
  const key = nameKey(name)
  // An update that changes nothing locks the row in every dialect.
  return db
    .updateTable('owners')
    .set({ name_key: key })
    .where('name_key', '=', key)
    .returningAll()
    .executeTakeFirst()
}

/** Returns a group. @throws Refusal if there is none of this name */
export async function findGroup(db: Queries, name: string): Promise<Owner> {
  return checkGroup(db, name, await findOwner(db, name))
}

/** Returns a group, locked like `lockOwner`. @throws Refusal if there is none of this name */
export async function lockGroup(change: Change, name: string): Promise<Owner> {
  return checkGroup(change.db, name, await lockOwner(change, name))
}

async function checkGroup(db: Queries, name: string, owner: Owner | undefined): Promise<Owner> {
  if (await isUser(db, name)) throw new Refusal(`"${name}" is a user, not a group`)
  if (!owner) throw new Refusal(`there is no group "${name}"`)
  return owner
}

/** Returns whether a name is that of a user. */
export async function isUser(db: Queries, name: string): Promise<boolean> {
  const user = db.selectFrom('users').select('id').where('name_key', '=', nameKey(name))
  return (await user.executeTakeFirst()) !== undefined
}

/**
 * Returns the owner of a name, locked like `lockOwner`. If there is none, creates a group, which
 * nobody is a member of.
 */
export async function ensureOwner(change: Change, name: string): Promise<Owner> {
  const existing = await lockOwner(change, name)
  if (existing) return existing
  const newOwner = await insertOwner(change, name)
  if (!newOwner) return ensureOwner(change, name)
  await change.record({ action: 'group.created', group: newOwner.name, details: {} })
  return newOwner
}

/** Inserts an owner. Returns undefined if the name is taken. */
export function insertOwner({ db }: Change, name: string): Promise<Owner | undefined> {
  return db
    .insertInto('owners')
    .values({ name, name_key: nameKey(name), created_at: nowInSeconds() })
    .onConflict((conflict) => conflict.column('name_key').doNothing())
    .returningAll()
    .executeTakeFirst()
}

/**
 * Makes a new user the owner of its name.
 *
 * @param ownExisting allows the name of a group without members, whose repositories the user gets
 * @throws Refusal if there is an owner of that name
 */
export async function claimOwner(change: Change, user: NamedUser, ownExisting: boolean): Promise<void> {
  const { db } = change
  const newOwner = await insertOwner(change, user.name)
  const owner = newOwner ?? (await lockOwner(change, user.name))
  if (!owner) throw new Error('the owner was deleted while its name was claimed')
  if (!newOwner && !ownExisting) {
    const problem = (await ownsRepositories(db, owner.id))
      ? 'already owns repositories, which the user could administer'
      : 'is a group'
    throw new Refusal(`"${user.name}" ${problem}; allow this with --own-existing`)
  }
  const members = db.selectFrom('members').select('user_id').where('owner_id', '=', owner.id).limit(1)
  if (!newOwner && (await members.executeTakeFirst()))
    throw new Refusal(`"${owner.name}" is a group with members; remove them first`)
  await db
    .insertInto('members')
    .values({ owner_id: owner.id, user_id: user.id, permission: 'admin' })
    .execute()
}

/** Returns whether an owner has repositories. */
export async function ownsRepositories(db: Queries, ownerId: number): Promise<boolean> {
  const owned = db.selectFrom('repositories').select('id').where('owner_id', '=', ownerId).limit(1)
  return (await owned.executeTakeFirst()) !== undefined
}
