import { sql } from 'kysely'
import { type Engine, ReferenceGone } from './engine.ts'
import { newId } from './ids.ts'
import { prepare } from './prepared.ts'
import type { StatusState } from './tables.ts'
import { nowInSeconds } from './time.ts'

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

export interface Report {
  repositoryId: number
  sha: string
  context: string
  state: StatusState
  description: string | null
  targetUrl: string | null
}

const columns = [
  'id',
  'sha',
  'context',
  'state',
  'description',
  'target_url',
  'created_at',
  'updated_at',
] as const

/** Names a commit's statuses where they are remembered. */
function keyOf(repositoryId: number, sha: string): string {
  return `statuses ${repositoryId} ${sha}`
}

/** Statuses: at most one for each context of a commit, the latest report. */
export function statusStore(engine: Engine) {
  const { kysely, flavor } = engine

  const later = sql<number>`${sql.raw(flavor.greatest)}(excluded.updated_at, statuses.updated_at)`
  const upsert = prepare<Report & { id: string; now: number }>()((p) =>
    kysely
      .insertInto('statuses')
      .values({
        repository_id: p.repositoryId,
        sha: p.sha,
        context: p.context,
        id: p.id,
        state: p.state,
        description: p.description,
        target_url: p.targetUrl,
        created_at: p.now,
        updated_at: p.now,
      })
      .onConflict((conflict) =>
        conflict.columns(['repository_id', 'sha', 'context']).doUpdateSet({
          state: (eb) => eb.ref('excluded.state'),
          description: (eb) => eb.ref('excluded.description'),
          target_url: (eb) => eb.ref('excluded.target_url'),
          updated_at: later,
        }),
      )
      // The rest is what was sent.
      .returning(['id', 'created_at', 'updated_at']),
  )

  const ofCommit = prepare<{ repositoryId: number; sha: string }>()((p) =>
    kysely
      .selectFrom('statuses')
      .select(columns)
      .where('repository_id', '=', p.repositoryId)
      .where('sha', '=', p.sha)
      .orderBy('context'),
  )

  const any = prepare<{ repositoryId: number; sha: string }>()((p) =>
    kysely
      .selectFrom('statuses')
      .select('context')
      .where('repository_id', '=', p.repositoryId)
      .where('sha', '=', p.sha)
      .limit(1),
  )

  return {
    /**
     * Stores a report. The latest committed one wins; it keeps the `id` and `created_at` of the first, and
     * `updated_at` never goes back, even if the clock does.
     *
     * @returns the status as it now reads, or undefined when the repository is gone
     */
    async report(report: Report): Promise<StatusRow | undefined> {
      const { repositoryId, sha, context, state, description, targetUrl } = report
      const values = { ...report, id: newId(), now: nowInSeconds() }
      try {
        const [row] = await engine.write(upsert, values, keyOf(repositoryId, sha))
        return row && { ...row, sha, context, state, description, target_url: targetUrl }
      } catch (error) {
        // One deleted meanwhile leaves nothing behind.
        if (error instanceof ReferenceGone) return undefined
        throw error
      }
    },

    /**
     * All statuses of a commit, ordered by the code points of `context`.
     *
     * @param sameRequest the request's access was read from this store before
     */
    list(repositoryId: number, sha: string, { sameRequest = false } = {}): Promise<StatusRow[]> {
      return engine.read(ofCommit, { repositoryId, sha }, { key: keyOf(repositoryId, sha), sameRequest })
    },

    /** The states of all statuses of each of the commits. */
    async states(repositoryId: number, shas: readonly string[]): Promise<Map<string, StatusState[]>> {
      const states = new Map<string, StatusState[]>(shas.map((sha) => [sha, []]))
      if (shas.length === 0) return states
      const rows = await kysely
        .selectFrom('statuses')
        .select(['sha', 'state'])
        .where('repository_id', '=', repositoryId)
        .where('sha', 'in', shas)
        .execute()
      for (const { sha, state } of rows) states.get(sha)?.push(state)
      return states
    },

    /**
     * Whether anything has been reported on the commit.
     *
     * @param sameRequest as for `list`
     */
    async any(repositoryId: number, sha: string, { sameRequest = false } = {}): Promise<boolean> {
      // A report adds what cannot be taken away again but by a deletion, which touches all that is remembered.
      const memory = {
        key: `any ${repositoryId} ${sha}`,
        keep: (rows: unknown[]) => rows.length > 0,
        sameRequest,
      }
      return (await engine.read(any, { repositoryId, sha }, memory)).length > 0
    },
  }
}
