import type { Administrator, Anonymous, Author, SignedIn } from '../../domain/actors.ts'
import { compareNames, isOwnerName, nameKey, OWNER_NAME_RULE } from '../../domain/names.ts'
import { AlreadyExists, Refusal } from '../../domain/refusal.ts'
import { chunksOf } from '../../util/lists.ts'
import type { AuditEvent } from '../audit/audit.ts'
import type { Audit, Change, Transact } from '../audit/change.ts'
import { type Reading, UniqueViolation } from '../engine.ts'
import { claimOwners } from '../owners/owners.ts'
import { INSERTED_ROWS } from '../steps.ts'
import type { Queries } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { deleteUser } from './delete-user.ts'
import {
  countTokens,
  deleteSessions,
  findUser,
  getUser,
  lockUser,
  USER_COLUMNS,
  type User,
} from './user-rows.ts'

/** An account at an OpenID Connect provider. */
export interface Identity {
  issuer: string
  subject: string
}

/** What a new password ended and what it left. */
export interface PasswordChange {
  /** Sessions that it ended. */
  sessions: number
  /** Tokens of the user, which still work. */
  tokens: number
}

export interface NewUser {
  passwordHash?: string | undefined
  /**
   * Allows the name of a group without members, whose repositories the user then owns.
   */
  ownExisting?: boolean
  isLocked?: boolean
  /** The account with which the user signs in. */
  identity?: Identity | null
}

/** Who creates users: an administrator, and who signs in for the first time. */
type UserCreation = Change<Administrator | Anonymous>

/** Returns functions that manage users: people and machines that own tokens. */
export function createUserStore({ kysely }: Reading, audit: Audit) {
  return {
    create: (change: Change<Administrator>, name: string, options?: NewUser) =>
      createUser(change, name, options),
    createAll: (change: Change<Administrator>, wanted: readonly (NewUser & { name: string })[]) =>
      createUsers(change, wanted),
    link: linkUser,
    setPassword,
    setOwnPassword,
    setLocked,

    /** See `deleteUser`. */
    delete: (transact: Transact<Administrator>, name: string, transferTo?: string) =>
      deleteUser(kysely, transact, name, transferTo),

    find: (name: string) => findUser(kysely, name),
    get: (name: string) => getUser(kysely, name),

    /**
     * Returns the user of an account, who may be locked, or creates one.
     *
     * @param name of a new user
     * @throws Refusal as `create`: nobody gets a user, or the rights of a name, by having
     * that name elsewhere
     */
    async findOrCreate(identity: Identity, name: string, address: string): Promise<User> {
      const find = () => findLinked(kysely, identity)
      const create = () =>
        audit.transaction({ kind: 'anonymous', address }, (change) => createUser(change, name, { identity }))
      // Another sign-in of the same person may create the user meanwhile.
      return (
        (await find()) ?? create().catch(async (error: unknown) => (await find()) ?? Promise.reject(error))
      )
    },

    async any(): Promise<boolean> {
      return (await kysely.selectFrom('users').select('id').limit(1).executeTakeFirst()) !== undefined
    },

    list(): Promise<User[]> {
      return kysely.selectFrom('users').select(USER_COLUMNS).orderBy('name_key').execute()
    },
  }
}

/**
 * Links a user to an account, which is then the only way to sign in. Ends the user's sessions.
 *
 * @param identity null removes the link, and with it the limit of the user's tokens
 * @returns how many sessions
 * @throws Refusal if there is no such user, it is linked already or not linked, or the account is
 * another user's
 */
async function linkUser(
  change: Change<Administrator>,
  name: string,
  identity: Identity | null,
): Promise<number> {
  const { db } = change
  const user = await lockUser(change, name)
  if ((identity === null) === (user.issuer === null))
    throw new Refusal(`"${name}" is ${identity ? 'linked already; unlink it first' : 'not linked'}`)
  const holder = identity && (await findLinked(db, identity))
  if (holder) throw new Refusal(`the account is linked to the user "${holder.name}"; unlink that one first`)
  await db
    .updateTable('users')
    .set(linkTo(identity))
    .where('id', '=', user.id)
    .execute()
    .catch((error: unknown) => {
      if (!(error instanceof UniqueViolation)) throw error
      throw new Refusal('the account was linked to another user in the meantime; unlink that one first')
    })
  const sessions = await deleteSessions(change, user.id)
  const details = { issuer: identity?.issuer ?? user.issuer, sessions }
  await change.record({ action: identity ? 'user.linked' : 'user.unlinked', subject: user, details })
  return sessions
}

/**
 * Sets a user's password and ends the user's sessions, in every process from the next request on.
 * Tokens keep working.
 *
 * @param user as read before
 * @returns null, and changes nothing, if the password was changed meanwhile
 */
function setPassword(
  change: Change<Administrator>,
  user: User,
  passwordHash: string,
): Promise<PasswordChange | null> {
  return replacePassword(change, user, passwordHash)
}

/**
 * Sets the password of who acts, and ends all other sessions of the user, as `setPassword`.
 *
 * @param before as read when the current password was compared
 * @param newHash of the session of who acts, which continues under it: a stolen cookie does not
 */
async function setOwnPassword(
  change: Change<SignedIn>,
  before: Pick<User, 'passwordHash'>,
  passwordHash: string,
  newHash: string,
): Promise<PasswordChange | null> {
  const { db, by } = change
  const user = { ...by.user, passwordHash: before.passwordHash }
  const changed = await replacePassword(change, user, passwordHash, by.session)
  if (changed)
    await db.updateTable('sessions').set({ hash: newHash }).where('hash', '=', by.session).execute()
  return changed
}

/** @param kept hash of the session that continues */
async function replacePassword(
  change: Change,
  user: Pick<User, 'id' | 'name' | 'passwordHash'>,
  passwordHash: string,
  kept?: string,
): Promise<PasswordChange | null> {
  const { db } = change
  const changedUser = await db
    .updateTable('users')
    .set({ password_hash: passwordHash })
    .where('id', '=', user.id)
    .where('password_hash', 'is not distinct from', user.passwordHash)
    .returning('id')
    .executeTakeFirst()
  if (!changedUser) return null

  const sessions = await deleteSessions(change, user.id, kept)
  const details = { sessions, tokens: await countTokens(db, user.id) }
  await change.record({ action: 'password.set', subject: user, details })
  return details
}

/**
 * Locks a user, whose tokens and password are then refused as if there was no such user, from the
 * next request on, in every process; or unlocks one. Locking ends the sessions.
 *
 * @returns how many sessions it ended, and how many tokens the user has; null if the user is already
 * locked, or not locked
 * @throws Refusal if there is no such user
 */
async function setLocked(change: Change<Administrator>, name: string, isLocked: boolean) {
  const { db } = change
  const user = await lockUser(change, name)
  const changedUser = await db
    .updateTable('users')
    .set({ locked_at: isLocked ? nowInSeconds() : null })
    .where('id', '=', user.id)
    .where('locked_at', isLocked ? 'is' : 'is not', null)
    .returning('id')
    .executeTakeFirst()
  if (!changedUser) return null
  const sessions = isLocked ? await deleteSessions(change, user.id) : 0
  if (isLocked) await change.record({ action: 'user.locked', subject: user, details: { sessions } })
  else await change.record({ action: 'user.unlocked', subject: user, details: {} })
  return { sessions, tokens: await countTokens(db, user.id) }
}

/** Creates a user, as `createUsers`. */
async function createUser(change: UserCreation, name: string, options: NewUser = {}): Promise<User> {
  const [user] = await createUsers(change, [{ ...options, name }])
  if (!user) throw new Error('the user was not stored')
  return user
}

/**
 * Creates users, in few statements, since the database is locked meanwhile.
 *
 * @throws AlreadyExists if a name is taken
 * @throws Refusal if a name is invalid or reserved, or that of a group, unless it has no members
 * and `ownExisting` is set
 */
async function createUsers(
  change: UserCreation,
  wanted: readonly (NewUser & { name: string })[],
): Promise<User[]> {
  for (const { name } of wanted)
    if (!isOwnerName(name)) throw new Refusal(`"${name}" is not a valid user name: ${OWNER_NAME_RULE}`)
  const users = await insertUsers(change, wanted)
  const claims = users.map((user, index) => ({ user, ownExisting: wanted[index]?.ownExisting ?? false }))
  await claimOwners(change, claims)
  await recordCreations(change, users)
  return users
}

/**
 * Inserts users, in the order of their names as `insertOwners` does, and returns them in the given
 * order.
 *
 * @throws AlreadyExists
 */
async function insertUsers(
  { db, by }: UserCreation,
  wanted: readonly (NewUser & { name: string })[],
): Promise<User[]> {
  const now = nowInSeconds()
  const values = wanted.map(({ name, passwordHash, isLocked, identity = null }) => ({
    name,
    name_key: nameKey(name),
    password_hash: passwordHash ?? null,
    created_at: now,
    locked_at: isLocked ? now : null,
    ...linkTo(identity),
  }))
  const usersByName = new Map<string, User>()
  for (const chunk of chunksOf(
    values.sort((a, b) => compareNames(a.name, b.name)),
    INSERTED_ROWS,
  )) {
    const rows = await db
      .insertInto('users')
      .values(chunk)
      .onConflict((conflict) => conflict.doNothing())
      .returning(USER_COLUMNS)
      .execute()
    for (const user of rows) usersByName.set(user.name, user)
  }
  return wanted.map(({ name, identity }) => {
    const user = usersByName.get(name)
    // Of two with the same name, only one was inserted.
    usersByName.delete(name)
    const orLinked = identity && by.kind === 'administrator' ? ' or one with the account' : ''
    if (!user) throw new AlreadyExists(`there is already a user "${name}"${orLinked}`)
    return user
  })
}

async function recordCreations(change: UserCreation, users: readonly User[]): Promise<void> {
  const events = users.flatMap((user): AuditEvent[] => {
    const details = {
      password: user.passwordHash !== null,
      ...(user.issuer !== null && { issuer: user.issuer }),
    }
    const created = { action: 'user.created', subject: user, details } as const
    const locked = { action: 'user.locked', subject: user, details: { sessions: 0 } } as const
    return user.lockedAt === null ? [created] : [created, locked]
  })
  const { by } = change
  const [user] = users
  // Whoever signs in for the first time creates the user.
  const creator: Author = by.kind === 'anonymous' && user ? { ...by, kind: 'user', user } : by
  await change.recordOf(creator, ...events)
}

/** Returns the user of an account. */
function findLinked(db: Queries, { issuer, subject }: Identity): Promise<User | undefined> {
  const users = db.selectFrom('users').select(USER_COLUMNS).where('oidc_issuer', '=', issuer)
  return users.where('oidc_subject', '=', subject).executeTakeFirst()
}

/** Returns the columns of a user who is linked to an account now, or to none. */
function linkTo(identity: Identity | null) {
  const { issuer = null, subject = null } = identity ?? {}
  return { oidc_issuer: issuer, oidc_subject: subject, signed_in_at: identity && nowInSeconds() }
}
