import { nameKey } from '../../domain/names.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { Change } from '../audit/change.ts'
import type { Queries } from '../tables.ts'

/** See `Tables['users']`. */
export interface User {
  id: number
  name: string
  passwordHash: string | null
  lockedAt: number | null
  issuer: string | null
  subject: string | null
  signedInAt: number | null
  createdAt: number
}

export const USER_COLUMNS = [
  'id',
  'name',
  'password_hash as passwordHash',
  'locked_at as lockedAt',
  'oidc_issuer as issuer',
  'oidc_subject as subject',
  'signed_in_at as signedInAt',
  'created_at as createdAt',
] as const

/** Returns a user by name. */
export function findUser(db: Queries, name: string): Promise<User | undefined> {
  return db.selectFrom('users').select(USER_COLUMNS).where('name_key', '=', nameKey(name)).executeTakeFirst()
}

/** Returns a user. @throws Refusal if there is none of this name */
export async function getUser(db: Queries, name: string): Promise<User> {
  return presentUser(await findUser(db, name), name)
}

/** Returns the same of a user who is to be changed or deleted, locked. @throws as `getUser` */
export async function lockUser(
  change: Change,
  name: string,
  strength: 'no key update' | 'update' = 'no key update',
): Promise<User> {
  const users = change.db.selectFrom('users').select(USER_COLUMNS).where('name_key', '=', nameKey(name))
  return presentUser(await change.locked(users, strength).executeTakeFirst(), name)
}

function presentUser(user: User | undefined, name: string): User {
  if (!user) throw new Refusal(`there is no user "${name}"`)
  return user
}

/** Ends the sessions of a user. @param kept hash of one that continues @returns how many */
export async function deleteSessions({ db }: Change, userId: number, kept = ''): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('sessions')
    .where('user_id', '=', userId)
    .where('hash', '<>', kept)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** Returns how many tokens a user has. */
export async function countTokens(db: Queries, userId: number): Promise<number> {
  const { tokens } = await db
    .selectFrom('tokens')
    .select((eb) => eb.fn.countAll<number>().as('tokens'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow()
  return tokens
}
