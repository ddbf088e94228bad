import { sql } from 'kysely'
import { schemas } from '../../generated/schemas.ts'
import type { Engine } from './engine.ts'
import { prepare } from './prepared.ts'
import type { CommitKey } from './status-summaries.ts'
import type { StatusState } from './tables.ts'

/** A status as stored; times in seconds since the epoch. */
export interface StatusRow {
  id: string
  sha: string
  context: string
  state: StatusState
  description: string | null
  target_url: string | null
  created_at: number
  updated_at: number
}

/** A status with the names of the user and the token of its latest report; null if it is older than their record. */
export interface ReportedStatus extends StatusRow {
  reporter_user: string | null
  reporter_token: string | null
}

export const statusColumns = [
  'id',
  'sha',
  'context',
  'state',
  'description',
  'target_url',
  'created_at',
  'updated_at',
] as const

/** Names of the parameters of a query by states. Those that are not needed are empty, which is no state. */
const STATES = schemas.State.enum.map((_, index) => `state${index}` as const)

/** Returns functions that read the statuses of large commits in batches, and find commits by their statuses. */
export function statusBatches(engine: Engine) {
  const { kysely } = engine
  const batch = prepare<CommitKey & { [name: `state${number}`]: string; after: string; limit: number }>()(
    (p) =>
      kysely
        .selectFrom('statuses')
        .leftJoin('reporters', 'reporters.id', 'statuses.reporter_id')
        .select(statusColumns.map((column) => `statuses.${column}` as const))
        .select(['reporters.user_name as reporter_user', 'reporters.token_name as reporter_token'])
        .where('repository_id', '=', p.repositoryId)
        .where('sha', '=', p.sha)
        .where('context', '>', p.after)
        .where(sql<boolean>`state in (${sql.join(STATES.map((name) => p[name]))})`)
        .orderBy('context')
        .limit(p.limit),
  )

  const nextCommit = prepare<{ repositoryId: number; after: string; end: string }>()((p) =>
    kysely
      .selectFrom('statuses')
      .select('sha')
      .where('repository_id', '=', p.repositoryId)
      .where('sha', '>', p.after)
      .where('sha', '<', p.end)
      .orderBy('sha')
      .limit(1),
  )

  return {
    /**
     * Returns the next statuses of a commit that have one of the states, with their reporters, ordered by the code points
     * of `context`. What was read before may be out of date by then.
     *
     * @param after a context; those behind it are read. Empty: from the first one on
     */
    listBatchByState(
      { repositoryId, sha }: CommitKey,
      states: readonly StatusState[],
      after: string,
      limit: number,
    ): Promise<ReportedStatus[]> {
      const named = Object.fromEntries(STATES.map((name, index) => [name, states[index] ?? '']))
      return engine.read(batch, { ...named, repositoryId, sha, after, limit })
    },

    /**
     * Returns the ids of commits with statuses that begin with `prefix`, in ascending order.
     *
     * @param prefix lower-case hex digits
     */
    async commitsWithPrefix(repositoryId: number, prefix: string, limit: number): Promise<string[]> {
      const found: string[] = []
      // Each step is one search of the index, however many statuses a commit has.
      for (let after = prefix; found.length < limit; ) {
        const [next] = await engine.read(nextCommit, { repositoryId, after, end: `${prefix}g` })
        if (!next) break
        found.push(next.sha)
        after = next.sha
      }
      return found
    },
  }
}
