import type { Insertable, Selectable } from 'kysely'
import type { NamedUser } from '../../domain/actors.ts'
import { compareNames, nameKey } from '../../domain/names.ts'
import { Refusal } from '../../domain/refusal.ts'
import { chunksOf } from '../../util/lists.ts'
import { lockOwner, lockOwners } from '../access/locked-rows.ts'
import type { Change } from '../audit/change.ts'
import { INSERTED_ROWS } from '../steps.ts'
import type { Queries, Tables } from '../tables.ts'
import { nowInSeconds } from '../time.ts'

export type Owner = Selectable<Tables['owners']>

/** Returns the owner of a name. */
export function findOwner(db: Queries, name: string): Promise<Owner | undefined> {
  return db.selectFrom('owners').selectAll().where('name_key', '=', nameKey(name)).executeTakeFirst()
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
 * Returns the owners of names as `lockOwners`, and creates those that are missing as groups, which
 * nobody is a member of. These come first: a change that waits for the name that another one creates
 * holds no lock for which that one waits.
 */
export async function ensureOwners(change: Change, names: readonly string[]): Promise<Map<string, Owner>> {
  // The first of several names with one key is that of its owner.
  const wanted = new Map(names.toReversed().map((name) => [nameKey(name), name]))
  for (const key of await existingKeys(change.db, [...wanted.keys()])) wanted.delete(key)
  const newOwners = await insertOwners(change, [...wanted.values()])
  const created = { action: 'group.created', details: {} } as const
  await change.record(...[...newOwners.values()].map(({ name }) => ({ ...created, group: name })))
  const owners = await lockOwners(change, names)
  // Others may have deleted some meanwhile.
  return names.every((name) => owners.has(nameKey(name))) ? owners : ensureOwners(change, names)
}

/** Returns those of several keys that owners have. */
async function existingKeys(db: Queries, keys: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const chunk of chunksOf(keys, INSERTED_ROWS)) {
    const rows = await db.selectFrom('owners').select('name_key').where('name_key', 'in', chunk).execute()
    found.push(...rows.map(({ name_key }) => name_key))
  }
  return found
}

/** Inserts an owner. Returns undefined if the name is taken. */
export async function insertOwner(change: Change, name: string): Promise<Owner | undefined> {
  return (await insertOwners(change, [name])).get(nameKey(name))
}

/**
 * Inserts owners, in the order of their names: two changes that insert the same ones wait for each
 * other only in one direction. Returns them by the keys of their names, without those whose names are
 * taken.
 */
async function insertOwners({ db }: Change, names: readonly string[]): Promise<Map<string, Owner>> {
  const owners = new Map<string, Owner>()
  const created_at = nowInSeconds()
  for (const chunk of chunksOf(names.toSorted(compareNames), INSERTED_ROWS)) {
    const rows = await db
      .insertInto('owners')
      .values(chunk.map((name) => ({ name, name_key: nameKey(name), created_at })))
      .onConflict((conflict) => conflict.column('name_key').doNothing())
      .returningAll()
      .execute()
    for (const row of rows) owners.set(row.name_key, row)
  }
  return owners
}

/**
 * Makes new users the owners of their names.
 *
 * @param ownExisting allows the name of a group without members, whose repositories the user gets
 * @throws Refusal if there is an owner of that name
 */
export async function claimOwners(
  change: Change,
  users: readonly { user: NamedUser; ownExisting: boolean }[],
): Promise<void> {
  const { db } = change
  const names = users.map(({ user }) => user.name)
  const newOwners = await insertOwners(change, names)
  const members: Insertable<Tables['members']>[] = []
  for (const { user, ownExisting } of users.toSorted((a, b) => compareNames(a.user.name, b.user.name))) {
    const owner = newOwners.get(nameKey(user.name)) ?? (await takeOver(change, user, ownExisting))
    members.push({ owner_id: owner.id, user_id: user.id, permission: 'admin' })
  }
  for (const chunk of chunksOf(members, INSERTED_ROWS)) await db.insertInto('members').values(chunk).execute()
}

/** Returns the owner of a name that a user gets. @throws Refusal as `claimOwners` */
async function takeOver(change: Change, user: NamedUser, ownExisting: boolean): Promise<Owner> {
  const { db } = change
  const owner = await lockOwner(change, user.name)
  // It was deleted meanwhile.
  if (!owner) return (await insertOwner(change, user.name)) ?? takeOver(change, user, ownExisting)
  if (!ownExisting) {
    const problem = (await ownsRepositories(db, owner.id))
      ? 'already owns repositories, which the user could administer'
      : 'is a group'
    throw new Refusal(`"${user.name}" ${problem}; allow this with --own-existing`)
  }
  const members = db.selectFrom('members').select('user_id').where('owner_id', '=', owner.id).limit(1)
  if (await members.executeTakeFirst())
    throw new Refusal(`"${owner.name}" is a group with members; remove them first`)
  return owner
}

/** Returns whether an owner has repositories. */
export async function ownsRepositories(db: Queries, ownerId: number): Promise<boolean> {
  const owned = db.selectFrom('repositories').select('id').where('owner_id', '=', ownerId).limit(1)
  return (await owned.executeTakeFirst()) !== undefined
}
