import { type SelectQueryBuilder, sql } from 'kysely'
import { schemas } from '../../../generated/schemas.ts'
import { countStates, type StatusCounts, type StatusState, statesOf } from '../../domain/states.ts'
import type { Reading } from '../engine.ts'
import { prepare } from '../prepared.ts'
import type { Tables } from '../tables.ts'
import { type CommitKey, commitCacheKey, statusesOf } from './statuses.ts'

/** What lists of commits show of the statuses of a commit. */
export interface StatusSummary {
  counts: StatusCounts
  /** The first contexts that failed, ordered by code points; at most `MAX_FAILED`. */
  failed: readonly FailedContext[]
}

/** A context that failed, and where its log is. */
export interface FailedContext {
  context: string
  targetUrl: string | null
  /** Time of the report, in seconds since the epoch. */
  failedAt: number
}

/** The summary of a commit without statuses. */
export const NO_STATUSES: StatusSummary = { counts: countStates([]), failed: [] }

export const MAX_FAILED = 3
export const FAILED = statesOf('failure')

/** As `countStates`, in the database. */
export function countsOf(statuses: SelectQueryBuilder<Tables, 'statuses', object>) {
  return statuses.select(({ fn }) =>
    schemas.State.enum.map((state) => fn.count<number>('state').filterWhere('state', '=', state).as(state)),
  )
}

export type StatusSummaries = ReturnType<typeof createStatusSummaries>

/** Returns functions that summarize the statuses of commits. */
export function createStatusSummaries(engine: Reading) {
  const { kysely, dialect } = engine
  const count = prepare<CommitKey>()((p) => countsOf(statusesOf(kysely, p)))
  const failedContexts = prepare<CommitKey>()((p) =>
    statusesOf(kysely, p)
      .select(['context', 'target_url as targetUrl', 'updated_at as failedAt'])
      .where('state', 'in', FAILED)
      .orderBy('context')
      .limit(MAX_FAILED),
  )
  const state = prepare<CommitKey & { context: string }>()((p) =>
    statusesOf(kysely, p).select('state').where('context', '=', p.context),
  )
  const states = prepare<CommitKey>()((p) =>
    statusesOf(kysely, p).select(['context', 'state', 'updated_at']).orderBy('context'),
  )
  const reported = prepare<{ repositoryIds: string }>()((p) => {
    const id = sql<number>`cast(asked.value as integer)`
    return kysely
      .selectFrom(dialect.elements(p.repositoryIds).as('asked'))
      .select(id.as('id'))
      .where((eb) => {
        const any = eb.selectFrom('statuses').select('sha').where('repository_id', '=', id)
        // The limit keeps a planner from joining all statuses.
        return eb(any.limit(1), 'is not', null)
      })
  })
  const ofCommits = dialect.ofCommits?.(kysely)

  /**
   * Counts the statuses of a commit by state. One statement per commit: its result stays cached
   * until the commit is reported on.
   */
  async function countByState(repositoryId: number, sha: string): Promise<StatusCounts> {
    const cache = { key: commitCacheKey({ repositoryId, sha }), variant: 'counts' }
    const [row] = await engine.read(count, { repositoryId, sha }, cache)
    if (!row) throw new Error('an aggregate without groups returns one row')
    return row
  }

  async function summary(commit: CommitKey): Promise<StatusSummary> {
    const counts = await countByState(commit.repositoryId, commit.sha)
    if (FAILED.every((state) => counts[state] === 0)) return { counts, failed: [] }
    const cache = { key: commitCacheKey(commit), variant: 'failed' }
    return { counts, failed: await engine.read(failedContexts, commit, cache) }
  }

  return {
    countByState,

    /** Returns the state of one context of a commit; undefined if it has not been reported. */
    async findState(repositoryId: number, sha: string, context: string): Promise<StatusState | undefined> {
      // No context contains it, and PostgreSQL refuses it.
      if (context.includes('\0')) return undefined
      return (await engine.read(state, { repositoryId, sha, context }))[0]?.state
    },

    /**
     * Returns the summaries of commits, in their order. Where each statement is a round trip, there
     * is one for all commits. Elsewhere there is one for each that is not cached, and a commit may
     * have thousands of statuses.
     */
    async list(commits: readonly CommitKey[]): Promise<StatusSummary[]> {
      if (commits.length === 0) return []
      if (ofCommits) {
        const keys = commits.map(({ repositoryId, sha }, n) => ({ n, repository_id: repositoryId, sha }))
        const rows = await engine.read(ofCommits.summaries, { commits: JSON.stringify(keys) })
        return rows.map(({ failed, ...counts }) => ({ counts, failed: failed ?? [] }))
      }
      const summaries: StatusSummary[] = []
      for (const commit of commits) summaries.push(await summary(commit))
      return summaries
    },

    /** Returns the repositories in which anything has been reported, by one statement. */
    async reportedIn(repositoryIds: readonly number[]): Promise<Set<number>> {
      if (repositoryIds.length === 0) return new Set()
      const rows = await engine.read(reported, { repositoryIds: JSON.stringify(repositoryIds) })
      return new Set(rows.map(({ id }) => id))
    },

    /**
     * Returns the states of all contexts of a commit and the times of their reports, ordered by the
     * code points of the contexts.
     */
    listStates: (commit: CommitKey) =>
      engine.read(states, commit, { key: commitCacheKey(commit), variant: 'states' }),
  }
}
