import { sql } from 'kysely'
import type { Administrator, NamedUser, SignedIn, SigningIn } from '../../domain/actors.ts'
import { ServiceError } from '../../errors.ts'
import { insteadOf } from '../../util/expected-errors.ts'
import type { Audit, Change } from '../audit/change.ts'
import type { Engine } from '../engine.ts'
import { hasEnded } from '../session-lifetime.ts'
import { DELETE_STEP } from '../steps.ts'
import { nowInSeconds } from '../time.ts'
import type { User } from './user-rows.ts'

/**
 * Seconds that a session with an OpenID Connect account lasts: people who leave are out the next
 * day.
 */
const LINKED = 12 * 3600
/** Minimum number of seconds between updates of `seen_at`. */
const RESOLUTION = 300
/** Length of a session's id: the first digits of its hash, 64 bits. */
const ID_LENGTH = 16
/** PostgreSQL refuses to compare some other texts with an id. */
const ID = /^[0-9a-f]{16}$/

export type SessionUser = NamedUser

/** The user of a session, and the version of the database with which both were read. */
interface UsedSession extends SessionUser {
  /** See `createVersions`. */
  snapshot: string
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
export function createSessionStore({ kysely, dialect }: Engine, audit: Audit) {
  return {
    signOut,

    /** Ends a session of who acts, by the id under which it is listed. @returns how many ended */
    endOwn: (change: Change<SignedIn>, which: string) =>
      endWhere(change, change.by.user, sql<boolean>`${id} = ${ID.test(which) ? which : ''}`),

    /** Ends the other sessions of who acts. @returns how many */
    endOthers: (change: Change<SignedIn>) =>
      endWhere(change, change.by.user, sql<boolean>`sessions.hash <> ${change.by.session}`),

    /** Ends all sessions of a user. @returns how many */
    endAll: (change: Change<Administrator>, user: SessionUser) => endWhere(change, user),

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
      const by: SigningIn = { kind: 'user', user, address: client.address, account: user }
      const started = audit.transaction(by, async (change) => {
        const { db } = change
        if (byProvider)
          await db.updateTable('users').set({ signed_in_at: now }).where('id', '=', user.id).execute()
        const ended = db.selectFrom('sessions').select('hash').where(hasEnded(now)).limit(DELETE_STEP)
        await db.deleteFrom('sessions').where('hash', 'in', ended).execute()
        const before = await deleteSession(change, replaces ?? '')
        if (before) {
          const event = { action: 'session.ended', subject: before, details: { sessions: 1 } } as const
          await change.recordOf({ kind: 'user', user: before, address: client.address }, event)
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
        const details = byProvider ? { issuer: user.issuer } : {}
        await change.record({ action: 'sign-in', subject: user, details })
        return true
      })
      return started.catch(insteadOf(ServiceError, false))
    },

    /**
     * Returns the user of a session; undefined if the session has ended or the user is locked.
     * Records the use of the session.
     *
     * @param extend false for requests that a page sends by itself, which do not keep the session
     * alive
     */
    async use(hash: string, client: SessionClient, extend = true): Promise<UsedSession | undefined> {
      const now = nowInSeconds()
      const session = await kysely
        .selectFrom('sessions')
        .innerJoin('users', 'users.id', 'sessions.user_id')
        .select(['users.id', 'users.name', 'sessions.seen_at'])
        .select(sql<string>`${sql.raw(dialect.snapshot)}`.as('snapshot'))
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
      return session && { id: session.id, name: session.name, snapshot: session.snapshot }
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
  }
}

/** The id under which a session is listed. */
const id = sql<string>`substr(sessions.hash, 1, ${sql.lit(ID_LENGTH)})`

/** Ends the session of who acts. @returns whether its user signs in with a provider */
async function signOut(change: Change<SignedIn>): Promise<boolean> {
  const user = await deleteSession(change, change.by.session)
  if (!user) return false
  await change.record({ action: 'sign-out', subject: user, details: {} })
  return user.subject !== null
}

/** Ends the sessions of a user to which `which` applies; default: all. @returns how many */
async function endWhere(change: Change, user: SessionUser, which = sql<boolean>`true`): Promise<number> {
  const { numDeletedRows } = await change.db
    .deleteFrom('sessions')
    .where('user_id', '=', user.id)
    .where(which)
    .executeTakeFirstOrThrow()
  const sessions = Number(numDeletedRows)
  if (sessions > 0) await change.record({ action: 'session.ended', subject: user, details: { sessions } })
  return sessions
}

/** Deletes a session. @returns its user; undefined if there is no such session */
async function deleteSession(
  { db }: Change,
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
