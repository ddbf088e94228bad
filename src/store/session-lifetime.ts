import { sql } from 'kysely'
import type { Seconds } from './time.ts'

/** Seconds after which a session ends: without a request, and at the latest. */
const IDLE = 7 * 24 * 3600
const ABSOLUTE = 30 * 24 * 3600

/** Returns whether a row of `sessions` has ended. @param now since the epoch */
export function hasEnded(now: Seconds) {
  return sql<boolean>`(sessions.seen_at <= ${now - IDLE} or sessions.created_at <= ${now - ABSOLUTE}
    or coalesce(sessions.ends_at <= ${now}, false))`
}
