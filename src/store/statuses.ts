import { type Selectable, sql } from 'kysely'
import { ADMINISTRATOR, type Audit, repositoryNameOf } from './audit.ts'
import { type Engine, ForeignKeyViolation } from './engine.ts'
import { newId } from './ids.ts'
import { prepare } from './prepared.ts'
import { RuleViolation } from './rule-violation.ts'
import { type ReportedStatus, type StatusRow, statusBatches, statusColumns } from './status-batches.ts'
import { type CommitKey, commitCacheKey, statusSummaries } from './status-summaries.ts'
import type { StatusState, Tables } from './tables.ts'
import { nowInSeconds } from './time.ts'

export type { CommitKey, ReportedStatus, StatusRow }

export interface Report {
  repositoryId: number
  sha: string
  context: string
  state: StatusState
  description: string | null
  targetUrl: string | null
  /** The `reporter_id` of the token that sent it. */
  reporterId?: number | null
}

/** The commit has as many contexts as it may, so one more is not stored. */
export class TooManyContexts extends Error {
  override name = 'TooManyContexts'

  /** @param limit maximum number of contexts of a commit */
  constructor(limit: number) {
    super(
      `context: this commit already has ${limit} contexts, the maximum. Report to an existing one instead.`,
    )
  }
}

type NewStatus = Selectable<Tables['statuses']>

const stored = ['repository_id', ...statusColumns, 'reporter_id'] as const
/** What the database decides. All other columns equal the report. */
const decided = ['id', 'created_at', 'updated_at'] as const

/**
 * Returns functions that manage statuses: one per context of a commit, the latest report.
 *
 * @param maxContexts contexts that a commit may have
 */
export function statusStore(engine: Engine, audit: Audit, maxContexts: number) {
  const { kysely, dialect } = engine
  const contextsOf = ({ repositoryId, sha }: CommitKey) =>
    kysely
      .selectFrom('statuses')
      .select('context')
      .where('repository_id', '=', repositoryId)
      .where('sha', '=', sha)

  /**
   * Stores a report, unless the commit has `maxContexts` others. SQLite does not evaluate the second condition if the first
   * one is true, so only a new context costs reading the others.
   */
  const upsert = prepare<NewStatus>()((p) => {
    const reported = kysely.selectNoFrom(({ val }) => stored.map((name) => val(p[name]).as(name)))
    const contexts = kysely
      .selectFrom('statuses')
      .select('context')
      .where('repository_id', '=', sql.ref<number>('reported.repository_id'))
      .where('sha', '=', sql.ref<string>('reported.sha'))
    const same = contexts.where('context', '=', sql.ref<string>('reported.context'))
    const last = contexts.limit(sql.lit(1)).offset(sql.lit(maxContexts - 1))
    return kysely
      .insertInto('statuses')
      .columns(stored)
      .expression(
        kysely
          .selectFrom(reported.as('reported'))
          .select(stored)
          .where(({ or, exists, not }) => or([exists(same), not(exists(last))])),
      )
      .onConflict((conflict) =>
        conflict.columns(['repository_id', 'sha', 'context']).doUpdateSet({
          state: (eb) => eb.ref('excluded.state'),
          description: (eb) => eb.ref('excluded.description'),
          target_url: (eb) => eb.ref('excluded.target_url'),
          updated_at: sql<number>`max(excluded.updated_at, statuses.updated_at)`,
          reporter_id: (eb) => eb.ref('excluded.reporter_id'),
        }),
      )
      .returning(decided)
  })
  /** Does the same with a function of the database (migrations.ts), because statements that run at once count alike. */
  const call = prepare<NewStatus>()((p) => {
    const values = stored.map((name) => sql`${sql.raw(`new_${name}`)} => ${p[name]}`)
    const reported = sql<Pick<StatusRow, (typeof decided)[number]>>`
      report_status(${sql.join(values)}, max_contexts => ${sql.lit(maxContexts)})`
    return kysely.selectFrom(reported.as('reported')).select(decided)
  })
  const write = dialect.serialWrites ? upsert : call

  const ofCommit = prepare<CommitKey>()(({ repositoryId, sha }) =>
    kysely
      .selectFrom('statuses')
      .select(statusColumns)
      .where('repository_id', '=', repositoryId)
      .where('sha', '=', sha)
      .orderBy('context'),
  )

  const any = prepare<CommitKey>()((p) => contextsOf(p).limit(1))

  return {
    ...statusSummaries(engine),
    ...statusBatches(engine),

    /**
     * Stores a report. The latest committed one wins; it keeps the `id` and `created_at` of the first, and
     * `updated_at` never goes back, even if the clock does.
     *
     * @returns the status as it now reads, or undefined when the repository is gone
     * @throws TooManyContexts; StoreUnavailable
     */
    async report(report: Report): Promise<StatusRow | undefined> {
      const { repositoryId, sha, context, state, description, targetUrl } = report
      const now = nowInSeconds()
      const status: NewStatus = {
        repository_id: repositoryId,
        sha,
        context,
        id: newId(),
        state,
        description,
        target_url: targetUrl,
        created_at: now,
        updated_at: now,
        reporter_id: report.reporterId ?? null,
      }
      const rows = await engine.write(write, status, commitCacheKey(report)).catch((error: unknown) => {
        // One deleted meanwhile leaves nothing behind.
        if (error instanceof ForeignKeyViolation) return undefined
        throw error
      })
      if (rows === undefined) return undefined
      const [row] = rows
      if (row === undefined) throw new TooManyContexts(maxContexts)
      return { ...row, sha, context, state, description, target_url: targetUrl }
    },

    /**
     * Returns all statuses of a commit, ordered by the code points of `context`. Returns the same array as before while
     * the database is sure that nothing has changed.
     */
    list(repositoryId: number, sha: string): Promise<StatusRow[]> {
      const commit = { repositoryId, sha }
      return engine.read(ofCommit, commit, { key: commitCacheKey(commit) })
    },

    /**
     * Removes the status of a context. The next read in every process is without it.
     *
     * @throws RuleViolation if nothing was reported for the context
     */
    async delete(repositoryId: number, sha: string, context: string): Promise<void> {
      // On Kysely's connection, whose commits clear the caches, since `any` and the number of contexts change too.
      await audit.transaction(async (db, record) => {
        const deleted = await db
          .deleteFrom('statuses')
          .where('repository_id', '=', repositoryId)
          .where('sha', '=', sha)
          .where('context', '=', context)
          .returning('context')
          .executeTakeFirst()
        const repository = await repositoryNameOf(db, repositoryId)
        if (!deleted || !repository)
          throw new RuleViolation(`the commit ${sha} has no status of the context "${context}"`)
        await record({
          by: ADMINISTRATOR,
          action: 'status.deleted',
          repository,
          details: { sha, context },
        })
      })
    },

    /** Returns whether anything has been reported on the commit. */
    async any(repositoryId: number, sha: string): Promise<boolean> {
      // A key of its own, which no report invalidates: only a deletion, which clears the cache, removes all statuses.
      const cache = { key: `any ${repositoryId} ${sha}`, cacheable: (rows: unknown[]) => rows.length > 0 }
      return (await engine.read(any, { repositoryId, sha }, cache)).length > 0
    },
  }
}
