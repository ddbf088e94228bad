import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { chunksOf } from '../../util/lists.ts'
import { readDetails } from '../audit/event-rows.ts'
import type { Reading } from '../engine.ts'
import { inMilliseconds, type Milliseconds } from '../time.ts'

/** A token with which somebody has pushed to a repository, or reported checks of its commits. */
export interface UsedToken {
  /** The names as they were then. It may have been revoked since, and its user deleted. */
  user: string
  token: string
  /** When last, since the epoch; null if it is not among what is looked at. */
  pushedAt: Milliseconds | null
  reportedAt: Milliseconds | null
}

/** Pushes that are looked at, and commits that came with them: the newest ones. */
export const MAX_PUSHES = 300
export const MAX_COMMITS = 100
/** Commits of one statement, which may have 10,000 statuses. */
const AT_ONCE = 10
const NO_COMMIT = /^0+$/

/**
 * Returns a function that lists the tokens used for a repository, the latest first: for pushes, which
 * are events, and for the latest reports on what was pushed.
 *
 * @param since of the pushes and reports
 */
export function createUsedTokens({ kysely, dialect }: Reading) {
  return async (repositoryId: number, since: Milliseconds): Promise<UsedToken[]> => {
    const tokens = new Map<string, UsedToken>()
    const add = (id: string, user: string, token: string, times: Partial<UsedToken>) =>
      tokens.set(id, { ...(tokens.get(id) ?? { user, token, pushedAt: null, reportedAt: null }), ...times })

    const pushes = await kysely
      .selectFrom('audit_events')
      .select(['user_name', 'token_id', 'token_name', 'time', 'details'])
      .where('repository_id', '=', repositoryId)
      .where('action', '=', 'push')
      .where('time', '>=', since)
      .orderBy('time', 'desc')
      .orderBy('id', 'desc')
      .limit(MAX_PUSHES)
      .execute()
    const commits = new Set<string>()
    for (const { user_name: user, token_id: id, token_name: token, time, details } of pushes) {
      for (const commit of pushedIn(details)) commits.add(commit)
      if (id !== null && !tokens.has(id)) add(id, user ?? '', token ?? '', { pushedAt: time })
    }

    for (const shas of chunksOf([...commits].slice(0, MAX_COMMITS), AT_ONCE)) {
      const reports = await kysely
        .selectFrom('statuses')
        .innerJoin('reporters', 'reporters.id', 'statuses.reporter_id')
        .select(['reporters.token_id', 'reporters.user_name', 'reporters.token_name'])
        .select((eb) => eb.fn.max('statuses.updated_at').as('time'))
        .where('statuses.repository_id', '=', repositoryId)
        .where(sql<boolean>`statuses.sha ${dialect.isOneOf(JSON.stringify(shas))}`)
        .where('statuses.updated_at', '>=', Math.ceil(since / 1000))
        // That of a user without a token is empty.
        .where('reporters.token_id', '<>', '')
        .groupBy(['reporters.token_id', 'reporters.user_name', 'reporters.token_name'])
        .execute()
      for (const { token_id: id, user_name: user, token_name: token, time } of reports) {
        const reportedAt = Math.max(inMilliseconds(time), tokens.get(id)?.reportedAt ?? 0)
        add(id, user, token, { reportedAt })
      }
      await setImmediate()
    }
    const lastUse = ({ pushedAt, reportedAt }: UsedToken) => Math.max(pushedAt ?? 0, reportedAt ?? 0)
    return [...tokens.values()].sort((one, other) => lastUse(other) - lastUse(one))
  }
}

/** Returns the ids to which a push has moved refs, by the details of its event. */
function pushedIn(details: string): string[] {
  const updates: unknown = readDetails(details)?.updates
  return (Array.isArray(updates) ? updates : []).flatMap(({ new: id }: { new?: unknown }) =>
    typeof id === 'string' && !NO_COMMIT.test(id) ? [id] : [],
  )
}
