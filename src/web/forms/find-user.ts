import { LRUCache } from 'lru-cache'
import type { NamedUser } from '../../domain/actors.ts'
import { isOwnerName, nameKey } from '../../domain/names.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { Store } from '../../store/store.ts'
import { entriesUpTo } from '../../util/memory.ts'

export type FindUser = ReturnType<typeof createUserFinder>

/** Names without a user that a user may send in an hour, so that nobody finds out all names. */
const UNKNOWN_NAMES = 30
const HOUR = 3_600_000

/** Returns a function that finds the user of a name that another user has typed. */
export function createUserFinder({ users }: { users: Pick<Store['users'], 'find'> }) {
  /** By the id of the user who sends them. */
  const unknownNames = new LRUCache<number, number>({ ...entriesUpTo(10_000), ttl: HOUR, noUpdateTTL: true })

  /**
   * @param by the id of the user who asks
   * @throws Refusal if there is no such user, or the user who asks has sent too many such
   * names
   */
  return async (by: number, name: string): Promise<NamedUser> => {
    if ((unknownNames.get(by) ?? 0) >= UNKNOWN_NAMES)
      throw new Refusal('you have sent many names that no user has; try again in an hour')
    // Counted before the answer, so that names which are sent at the same time are limited as well.
    unknownNames.set(by, (unknownNames.get(by) ?? 0) + 1)
    const user = isOwnerName(name) ? await users.find(name) : undefined
    if (user) {
      unknownNames.set(by, (unknownNames.get(by) ?? 1) - 1)
      return { id: user.id, name: user.name }
    }
    throw new Refusal(`there is no user "${name}"`)
  }
}

/**
 * Returns the users of the names in a list, each once.
 *
 * @param by the id of the user who asks
 * @param max names that the list may have
 * @throws Refusal for a longer list, before any name is looked up; as `FindUser`
 */
export async function findUsers(
  findUser: FindUser,
  by: number,
  names: readonly string[],
  max: number,
): Promise<NamedUser[]> {
  const distinct = [...new Map(names.map((name) => [nameKey(name), name])).values()]
  if (distinct.length > max) throw new Refusal(`${distinct.length} users; at most ${max} are allowed`)
  const users: NamedUser[] = []
  for (const name of distinct) users.push(await findUser(by, name))
  return users
}
