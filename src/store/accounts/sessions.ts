import { type Kysely, sql } from 'kysely'
import type { Actor, Audit } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import type { Tables } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import type { User } from './user-rows.ts'

/** Seconds after which a session ends: without a request, and at the latest. */
const IDLE = 7 * 24 * 3600
const ABSOLUTE = 30 * 24 * 3600
/**
 * Seconds that a session with an OpenID Connect account lasts: people who leave are out the next
 * day.
 */
const LINKED = 12 * 3600
/** Minimum number of seconds between updates of `seen_at`. */
const RESOLUTION = 300
/** Length of a session's id: the first digits of its hash, 64 bits. */
const ID_LENGTH = 16

export interface SessionUser {
  id: number
  name: string
}

/** The browser that sends a request. */
export interface SessionClient {
  /** In the form of `http/address.ts`. */
  address: string
  /** Its `User-Agent`, of bounded length. */
  userAgent: string | null
}

/** A session as shown to its user. */
export interface SessionInfo {
  id: string
  /** Seconds since the epoch. */
  createdAt: number
  /** Seconds since the epoch. */
  seenAt: number
  address: string | null
  userAgent: string | null
}

/** Returns the id under which a session is listed. */
export function sessionId(hash: string): string {
  return hash.slice(0, ID_LENGTH)
}

/**
 * Returns functions that manage sessions of browsers. Only a hash of the cookie is stored, which
 * cannot be used to sign in.
 */
export function createSessionStore({ kysely }: Engine, audit: Audit) {
  const id = sql<string>`substr(sessions.hash, 1, ${sql.lit(ID_LENGTH)})`
  const hasEnded = (now: number) =>
    sql<boolean>`(sessions.seen_at <= ${now - IDLE} or sessions.created_at <= ${now - ABSOLUTE}
      or coalesce(sessions.ends_at <= ${now}, false))`

  /** Ends the sessions of a user to which `which` applies. @returns how many */
  const endWhere = (user: SessionUser, by: Actor, which: ReturnType<typeof sql<boolean>>): Promise<number> =>
    audit.transaction(async (db, record) => {
      const { numDeletedRows } = await db
        .deleteFrom('sessions')
        .where('user_id', '=', user.id)
        .where(which)
        .executeTakeFirstOrThrow()
      const sessions = Number(numDeletedRows)
      if (sessions > 0) await record({ by, action: 'session.ended', subject: user, details: { sessions } })
      return sessions
    })

  return {
    /**
     * Starts a session and removes those that have expired.
     *
     * @param user as read when the password was compared, or the provider's account found
     * @param replaces hash of the session that the browser had before, which ends
     * @param byProvider whether the user signed in with the account to which it is linked
     * @returns false, without a session, if the password or the link was changed or the user locked
     * or deleted meanwhile
     */
    create(
      hash: string,
      user: User,
      client: SessionClient,
      replaces?: string,
      byProvider = false,
    ): Promise<boolean> {
      const now = nowInSeconds()
      return audit.transaction(async (db, record) => {
        // An update, because it locks the row on PostgreSQL: what ends sessions of the user comes
        // before or after.
        const account = await db
          .updateTable('users')
          .set({ signed_in_at: byProvider ? now : user.signedInAt })
          .where('id', '=', user.id)
          .where('password_hash', 'is not distinct from', user.passwordHash)
          .where('oidc_subject', 'is not distinct from', user.subject)
          .where('locked_at', 'is', null)
          .returning('id')
          .executeTakeFirst()
        if (!account) return false

        await db.deleteFrom('sessions').where(hasEnded(now)).execute()
        const before = await deleteSession(db, replaces ?? '')
        if (before) {
          const by = { kind: 'user', user: before, address: client.address } as const
          await record({ by, action: 'session.ended', subject: before, details: { sessions: 1 } })
        }

        await db
          .insertInto('sessions')
          .values({
            hash,
            user_id: user.id,
            created_at: now,
            seen_at: now,
            address: client.address,
            user_agent: client.userAgent,
            ends_at: byProvider ? now + LINKED : null,
          })
          .execute()
        const by = { kind: 'user', user, address: client.address } as const
        const details = byProvider ? { issuer: user.issuer } : {}
        await record({ by, action: 'sign-in', subject: user, details })
        return true
      })
    },

    /**
     * Returns the user of a session; undefined if the session has ended or the user is locked.
     * Records the use of the session.
     *
     * @param extend false for requests that a page sends by itself, which do not keep the session
     * alive
     */
    async use(hash: string, client: SessionClient, extend = true): Promise<SessionUser | undefined> {
      const now = nowInSeconds()
      const session = await kysely
        .selectFrom('sessions')
        .innerJoin('users', 'users.id', 'sessions.user_id')
        .select(['users.id', 'users.name', 'sessions.seen_at'])
        .where('sessions.hash', '=', hash)
        .where((eb) => eb.not(hasEnded(now)))
        .where('users.locked_at', 'is', null)
        .executeTakeFirst()
      if (extend && session && now - session.seen_at >= RESOLUTION) {
        await kysely
          .updateTable('sessions')
          .set({ seen_at: now, address: client.address, user_agent: client.userAgent })
          .where('hash', '=', hash)
          .execute()
      }
      return session && { id: session.id, name: session.name }
    },

    /** Returns up to `count` sessions of a user, the last used one first. */
    list(userId: number, count: number): Promise<SessionInfo[]> {
      return kysely
        .selectFrom('sessions')
        .where('user_id', '=', userId)
        .where((eb) => eb.not(hasEnded(nowInSeconds())))
        .select([id.as('id'), 'created_at as createdAt', 'seen_at as seenAt', 'address'])
        .select('user_agent as userAgent')
        .orderBy('seen_at', 'desc')
        .orderBy('hash')
        .limit(count)
        .execute()
    },

    /**
     * Ends the session that its own browser signs out of.
     *
     * @returns whether its user signs in with a provider
     */
    signOut(hash: string, address: string): Promise<boolean> {
      return audit.transaction(async (db, record) => {
        const user = await deleteSession(db, hash)
        if (!user) return false
        const by = { kind: 'user', user, address } as const
        await record({ by, action: 'sign-out', subject: user, details: {} })
        return user.subject !== null
      })
    },

    /** Ends one session of a user, by the id under which it is listed. */
    end: (user: SessionUser, which: string, by: Actor) => endWhere(user, by, sql<boolean>`${id} = ${which}`),

    /** Ends all sessions of a user, except one by its hash. */
    endAll: (user: SessionUser, by: Actor, except = '') =>
      endWhere(user, by, sql<boolean>`sessions.hash <> ${except}`),
  }
}

/** Deletes a session. @returns its user; undefined if there is no such session */
async function deleteSession(
  db: Kysely<Tables>,
  hash: string,
): Promise<(SessionUser & Pick<User, 'subject'>) | undefined> {
  const deletedSession = await db
    .deleteFrom('sessions')
    .where('hash', '=', hash)
    .returning('user_id')
    .executeTakeFirst()
  if (!deletedSession) return undefined
  const user = db
    .selectFrom('users')
    .select(['id', 'name', 'oidc_subject as subject'])
    .where('id', '=', deletedSession.user_id)
  return user.executeTakeFirst()
}
