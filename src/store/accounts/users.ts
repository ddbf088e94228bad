import type { Kysely } from 'kysely'
import { isOwnerName, nameKey, OWNER_NAME_RULE } from '../../domain/names.ts'
import { AlreadyExists, Refusal } from '../../domain/refusal.ts'
import { type Actor, ADMINISTRATOR, type Audit, type Recorder } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import { claimOwner } from '../owners/owners.ts'
import type { Tables } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { deleteUser } from './delete-user.ts'
import { countTokens, deleteSessions, findUser, getUser, USER_COLUMNS, type User } from './user-rows.ts'

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
  name: string
  passwordHash?: string | undefined
  /**
   * Allows the name of a group without members, whose repositories the user then owns.
   */
  ownExisting?: boolean
  isLocked?: boolean
  /** The account with which the user signs in. */
  identity?: Identity | null
  /** Where that account signs in for the first time. Default: an administrator creates the user. */
  address?: string
}

/** Returns functions that manage users: people and machines that own tokens. */
export function createUserStore(engine: Engine, audit: Audit) {
  const { kysely } = engine
  return {
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
        audit.transaction((db, record) => createUser(db, record, { name, identity, address }))
      // Another sign-in of the same person may create the user meanwhile.
      return (
        (await find()) ?? create().catch(async (error: unknown) => (await find()) ?? Promise.reject(error))
      )
    },

    /**
     * Links a user to an account, which is then the only way to sign in. Ends the user's sessions.
     *
     * @param identity null removes the link, and with it the limit of the user's tokens
     * @returns how many sessions
     * @throws Refusal if there is no such user, it is linked already or not linked, or the
     * account is another user's
     */
    link(name: string, identity: Identity | null): Promise<number> {
      return audit.transaction(async (db, record) => {
        const user = await getUser(db, name)
        if ((identity === null) === (user.issuer === null))
          throw new Refusal(`"${name}" is ${identity ? 'linked already; unlink it first' : 'not linked'}`)
        const holder = identity && (await findLinked(db, identity))
        if (holder)
          throw new Refusal(`the account is linked to the user "${holder.name}"; unlink that one first`)
        await db.updateTable('users').set(linkTo(identity)).where('id', '=', user.id).execute()
        const sessions = await deleteSessions(db, user.id)
        const details = { issuer: identity?.issuer ?? user.issuer, sessions }
        const action = identity ? 'user.linked' : 'user.unlinked'
        await record({ by: ADMINISTRATOR, action, subject: user, details })
        return sessions
      })
    },

    /**
     * Creates a user.
     *
     * @throws AlreadyExists if the name is taken
     * @throws Refusal if the name is invalid or reserved, or that of a group, unless it has
     * no members and `ownExisting` is set
     */
    create: (name: string, options: Omit<NewUser, 'name'> = {}): Promise<User> =>
      audit.transaction((db, record) => createUser(db, record, { name, ...options })),

    /** Creates users: all or none. @throws as `create` */
    createAll: (users: readonly NewUser[]): Promise<void> =>
      audit.transaction(async (db, record) => {
        for (const user of users) await createUser(db, record, user)
      }),

    async any(): Promise<boolean> {
      return (await kysely.selectFrom('users').select('id').limit(1).executeTakeFirst()) !== undefined
    },

    list(): Promise<User[]> {
      return kysely.selectFrom('users').select(USER_COLUMNS).orderBy('name_key').execute()
    },

    /**
     * Sets a password and ends the user's sessions, in every process from the next request on.
     * Tokens keep working.
     *
     * @param user as read before; for a change by the user, when the current password was compared
     * @param keep the session that continues, under a new hash: a stolen cookie does not. Omit it
     * for an administrator
     * @returns null, and changes nothing, if the password was changed meanwhile, the session to
     * keep has ended, or its user is locked
     */
    setPassword(
      user: User,
      passwordHash: string,
      by: Actor,
      keep?: { hash: string; newHash: string },
    ): Promise<PasswordChange | null> {
      return audit.transaction(async (db, record) => {
        const changedUser = await db
          .updateTable('users')
          .set({ password_hash: passwordHash })
          .where('id', '=', user.id)
          .where('password_hash', 'is not distinct from', user.passwordHash)
          .$if(keep !== undefined, (query) =>
            query.where('locked_at', 'is', null).where(({ exists }) =>
              exists(
                db
                  .selectFrom('sessions')
                  .select('hash')
                  .where('user_id', '=', user.id)
                  .where('hash', '=', keep?.hash ?? ''),
              ),
            ),
          )
          .returning('id')
          .executeTakeFirst()
        if (!changedUser) return null

        const sessions = await deleteSessions(db, user.id, keep?.hash)
        if (keep) {
          await db
            .updateTable('sessions')
            .set({ hash: keep.newHash })
            .where('user_id', '=', user.id)
            .where('hash', '=', keep.hash)
            .execute()
        }

        const details = { sessions, tokens: await countTokens(db, user.id) }
        await record({ by, action: 'password.set', subject: user, details })
        return details
      })
    },

    /**
     * Locks a user, whose tokens and password are then refused as if there was no such user, from
     * the next request on, in every process; or unlocks one. Locking ends the sessions.
     *
     * @returns how many sessions it ended, and how many tokens the user has; null if the user is
     * already locked, or not locked
     * @throws Refusal if there is no such user
     */
    setLocked(name: string, isLocked: boolean) {
      return audit.transaction(async (db, record) => {
        const user = await getUser(db, name)
        const changedUser = await db
          .updateTable('users')
          .set({ locked_at: isLocked ? nowInSeconds() : null })
          .where('id', '=', user.id)
          .where('locked_at', isLocked ? 'is' : 'is not', null)
          .returning('id')
          .executeTakeFirst()
        if (!changedUser) return null
        const sessions = isLocked ? await deleteSessions(db, user.id) : 0
        const event = { by: ADMINISTRATOR, subject: user }
        if (isLocked) await record({ ...event, action: 'user.locked', details: { sessions } })
        else await record({ ...event, action: 'user.unlocked', details: {} })
        return { sessions, tokens: await countTokens(db, user.id) }
      })
    },

    /** See `deleteUser`. */
    delete: (name: string, transferTo?: string) => deleteUser(engine, audit, name, transferTo),
  }
}

async function createUser(
  db: Kysely<Tables>,
  record: Recorder,
  { name, passwordHash, ownExisting = false, isLocked = false, identity = null, address }: NewUser,
): Promise<User> {
  if (!isOwnerName(name)) throw new Refusal(`"${name}" is not a valid user name: ${OWNER_NAME_RULE}`)
  const now = nowInSeconds()
  const user = await db
    .insertInto('users')
    .values({
      name,
      name_key: nameKey(name),
      password_hash: passwordHash ?? null,
      created_at: now,
      locked_at: isLocked ? now : null,
      ...linkTo(identity),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning(USER_COLUMNS)
    .executeTakeFirst()
  if (!user)
    throw new AlreadyExists(
      `there is already a user "${name}"${identity && address === undefined ? ' or one with the account' : ''}`,
    )
  await claimOwner(db, user, ownExisting)
  const details = { password: passwordHash !== undefined, ...(identity && { issuer: identity.issuer }) }
  const by: Actor = address === undefined ? ADMINISTRATOR : { kind: 'user', user, address }
  await record({ by, action: 'user.created', subject: user, details })
  if (isLocked)
    await record({ by: ADMINISTRATOR, action: 'user.locked', subject: user, details: { sessions: 0 } })
  return user
}

/** Returns the user of an account. */
function findLinked(db: Kysely<Tables>, { issuer, subject }: Identity): Promise<User | undefined> {
  const users = db.selectFrom('users').select(USER_COLUMNS).where('oidc_issuer', '=', issuer)
  return users.where('oidc_subject', '=', subject).executeTakeFirst()
}

/** Returns the columns of a user who is linked to an account now, or to none. */
function linkTo(identity: Identity | null) {
  const { issuer = null, subject = null } = identity ?? {}
  return { oidc_issuer: issuer, oidc_subject: subject, signed_in_at: identity && nowInSeconds() }
}
