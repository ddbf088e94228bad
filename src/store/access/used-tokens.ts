import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { NO_OBJECT } from '../../domain/commit-id.ts'
import { itemsOf, partOf } from '../../domain/event-details.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
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

/** Begins the `token_id` of the reporter of a user who reports without a token: no id of a token does. */
export const WITHOUT_TOKEN = 'user '

/** Pushes that are looked at, and commits to which they moved branches: the newest ones. */
export const MAX_PUSHES = 2_000
export const MAX_COMMITS = 100

/**
 * Returns a function that lists the tokens used for a repository, the latest first: for pushes, which
 * are events, and for the latest reports on the commits that branches were moved to.
 *
 * @param since of the pushes and reports
 */
export function createUsedTokens({ kysely, dialect, remote }: Reading) {
  // On SQLite a statement blocks the event loop, and a commit may have 1,000 statuses.
  const commitsAtOnce = remote ? 20 : 1

  return async (repositoryId: number, since: Milliseconds): Promise<UsedToken[]> => {
    const tokens = new Map<string, UsedToken>()
    const add = (id: string, user: string, token: string, times: Partial<UsedToken>) =>
      tokens.set(id, { ...(tokens.get(id) ?? { user, token, pushedAt: null, reportedAt: null }), ...times })
    const pushes = kysely
      .selectFrom('audit_events')
      .where('repository_id', '=', repositoryId)
      .where('action', '=', 'push')
      .where('time', '>=', since)
      .orderBy('time', 'desc')
      .orderBy('id', 'desc')
      .limit(MAX_PUSHES)

    const pushers = await kysely
      .selectFrom(pushes.select(['token_id', 'token_name', 'user_name', 'time']).as('pushes'))
      .select(['token_id', 'token_name', 'user_name'])
      .select((eb) => eb.fn.max('time').as('time'))
      .where('token_id', 'is not', null)
      .groupBy(['token_id', 'token_name', 'user_name'])
      .orderBy('time')
      .execute()
    for (const { token_id: id, token_name: token, user_name: user, time } of pushers)
      add(id ?? '', user ?? '', token ?? '', { pushedAt: time })

    // A landing pushes its ticket each minute.
    const moves = await kysely
      .selectFrom(pushes.select(['time', 'id', 'details']).as('pushes'))
      .select('details')
      .where('details', 'like', `%"ref":"${BRANCHES}%`)
      .orderBy('time', 'desc')
      .orderBy('id', 'desc')
      .limit(MAX_COMMITS)
      .execute()
    const commits = [...new Set(moves.flatMap(({ details }) => commitsIn(details)))]
    for (const shas of chunksOf(commits.slice(0, MAX_COMMITS), commitsAtOnce)) {
      await setImmediate()
      const reports = await kysely
        .selectFrom('statuses')
        .innerJoin('reporters', 'reporters.id', 'statuses.reporter_id')
        .select(['reporters.token_id', 'reporters.user_name', 'reporters.token_name'])
        .select((eb) => eb.fn.max('statuses.updated_at').as('time'))
        .where('statuses.repository_id', '=', repositoryId)
        .where(sql<boolean>`statuses.sha ${dialect.isOneOf(JSON.stringify(shas))}`)
        .where('statuses.updated_at', '>=', Math.ceil(since / 1000))
        .where('reporters.token_id', 'not like', `${WITHOUT_TOKEN}%`)
        .groupBy(['reporters.token_id', 'reporters.user_name', 'reporters.token_name'])
        .execute()
      for (const { token_id: id, user_name: user, token_name: token, time } of reports) {
        const reportedAt = Math.max(inMilliseconds(time), tokens.get(id)?.reportedAt ?? 0)
        add(id, user, token, { reportedAt })
      }
    }
    const lastUse = ({ pushedAt, reportedAt }: UsedToken) => Math.max(pushedAt ?? 0, reportedAt ?? 0)
    return [...tokens.values()].sort((one, other) => lastUse(other) - lastUse(one))
  }
}

/** Returns the commits to which a push has moved branches, by the details of its event. */
function commitsIn(details: string): string[] {
  const updates = itemsOf(readDetails(details)?.updates)
  return updates.flatMap((update) => {
    const [ref, id] = [partOf(update, 'ref'), partOf(update, 'new')]
    const isCommit = typeof id === 'string' && !NO_OBJECT.test(id)
    return isCommit && typeof ref === 'string' && ref.startsWith(BRANCHES) ? [id] : []
  })
}
