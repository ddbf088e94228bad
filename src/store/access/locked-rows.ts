import type { Selectable } from 'kysely'
import type { NamedUser } from '../../domain/actors.ts'
import { nameKey } from '../../domain/names.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { Change } from '../audit/change.ts'
import type { Tables } from '../tables.ts'

/*
 * What a change checks must still be true when it writes. So it locks each row before it reads it,
 * in the function that finds the row, and all changes do so in the same order, so that no two of them
 * wait for each other:
 *
 *   1. users         who acts, with the session or token (`audit.transaction`); the one that is
 *                    changed; those that a grant or a rule names, in the order of their ids
 *   2. owners        in the order of their names. Whoever changes members, reserved names or the list
 *                    of repositories has locked their owner
 *   3. repositories  after their owners. Whoever changes grants, rules or a name has locked the
 *                    repository
 *
 * So a row that does not exist, a number of rows, and a permission are locked by what they belong to.
 * On SQLite, transactions that write run one after the other.
 *
 * Locks are `for no key update`, so they let reports through: one of a new context locks the key of
 * its repository. Only a change of a key, by a rename or a deletion, makes such reports wait for its
 * end. Users that are only named are locked by their key too: two people may give each other
 * something at once.
 */

type Owner = Selectable<Tables['owners']>

/** Returns users by their ids, who are not deleted meanwhile. Those that are gone are missing. */
export async function keepUsers(
  change: Change,
  ids: readonly number[],
): Promise<ReadonlyMap<number, NamedUser>> {
  if (ids.length === 0) return new Map()
  const users = change.db.selectFrom('users').select(['id', 'name']).where('id', 'in', ids).orderBy('id')
  const rows = await change.locked(users, 'key share').execute()
  return new Map(rows.map((user) => [user.id, user]))
}

/** Returns a user who was found before. @throws Refusal if the user was deleted since then */
export async function keepUser(change: Change, id: number): Promise<NamedUser> {
  return keptUser(await keepUsers(change, [id]), id)
}

/** Returns one of the users that were kept. @throws Refusal as `keepUser` */
export function keptUser(users: ReadonlyMap<number, NamedUser>, id: number): NamedUser {
  const user = users.get(id)
  if (!user) throw new Refusal('the user was deleted in the meantime; nothing was changed')
  return user
}

/** Returns the owner of a name. */
export function lockOwner(change: Change, name: string): Promise<Owner | undefined> {
  const owners = change.db.selectFrom('owners').selectAll().where('name_key', '=', nameKey(name))
  return change.locked(owners).executeTakeFirst()
}

/** Returns the owners of names by the keys of these. */
export async function lockOwners(change: Change, names: readonly string[]): Promise<Map<string, Owner>> {
  const owners = new Map<string, Owner>()
  for (const key of [...new Set(names.map(nameKey))].sort()) {
    const owner = await lockOwner(change, key)
    if (owner) owners.set(key, owner)
  }
  return owners
}
