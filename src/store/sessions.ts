import type { Engine } from './engine.ts'
import { nowInSeconds } from './time.ts'

/** Seconds after which a session ends: without a request, and at the latest. */
const IDLE = 7 * 24 * 3600
const ABSOLUTE = 30 * 24 * 3600
/** Minimum number of seconds between updates of `seen_at`. */
const RESOLUTION = 300

export interface SessionUser {
  id: number
  name: string
}

/** Returns functions that manage sessions of browsers. Only a hash of the cookie is stored, which cannot be used to sign in. */
export function sessionStore({ kysely }: Engine) {
  return {
    async create(hash: string, userId: number): Promise<void> {
      const now = nowInSeconds()
      await kysely
        .deleteFrom('sessions')
        .where((eb) => eb.or([eb('seen_at', '<=', now - IDLE), eb('created_at', '<=', now - ABSOLUTE)]))
        .execute()
      await kysely
        .insertInto('sessions')
        .values({ hash, user_id: userId, created_at: now, seen_at: now })
        .execute()
    },

    /** Returns the user of a session and records its use; undefined if the session has ended. */
    async use(hash: string): Promise<SessionUser | undefined> {
      const now = nowInSeconds()
      const session = await kysely
        .selectFrom('sessions')
        .innerJoin('users', 'users.id', 'sessions.user_id')
        .select(['users.id', 'users.name', 'sessions.seen_at'])
        .where('sessions.hash', '=', hash)
        .where('sessions.seen_at', '>', now - IDLE)
        .where('sessions.created_at', '>', now - ABSOLUTE)
        .executeTakeFirst()
      if (session && now - session.seen_at >= RESOLUTION) {
        await kysely.updateTable('sessions').set({ seen_at: now }).where('hash', '=', hash).execute()
      }
      return session && { id: session.id, name: session.name }
    },

    async end(hash: string): Promise<void> {
      await kysely.deleteFrom('sessions').where('hash', '=', hash).execute()
    },
  }
}
