import { sql } from 'kysely'

/** Seconds after which a session ends: without a request, and at the latest. */
const IDLE = 7 * 24 * 3600
const ABSOLUTE = 30 * 24 * 3600

/** Returns whether a row of `sessions` has ended. @param now seconds since the epoch */
export function hasEnded(now: number) {
  return sql<boolean>`(sessions.seen_at <= ${now - IDLE} or sessions.created_at <= ${now - ABSOLUTE}
    or coalesce(sessions.ends_at <= ${now}, false))`
}
