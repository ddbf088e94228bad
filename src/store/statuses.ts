import { type OnConflictBuilder, sql } from 'kysely'
import { ADMINISTRATOR, type Audit, repositoryNameOf } from './audit.ts'
import { type Engine, ForeignKeyViolation, type LimitedWrite } from './engine.ts'
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

/** Statuses that are read without slices. That takes some milliseconds at most, however large each of them is. */
const UNSLICED_ROWS = 256

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

interface ReportValues extends Report {
  reporterId: number | null
  /** Of the status, if it is a new one. */
  id: string
  now: number
}

const stored = ['repository_id', ...statusColumns, 'reporter_id'] as const

/** The columns of a new status. */
function rowOf(report: ReportValues) {
  return {
    repository_id: report.repositoryId,
    sha: report.sha,
    context: report.context,
    id: report.id,
    state: report.state,
    description: report.description,
    target_url: report.targetUrl,
    created_at: report.now,
    updated_at: report.now,
    reporter_id: report.reporterId,
  }
}

/**
 * Returns functions that manage statuses: one per context of a commit, the latest report.
 *
 * @param maxContexts contexts that a commit may have
 */
export function statusStore(engine: Engine, audit: Audit, maxContexts: number) {
  const { kysely, dialect } = engine
  // All else that a status consists of was sent with the report.
  const decided = ['id', 'created_at', 'updated_at'] as const

  const contextsOf = ({ repositoryId, sha }: CommitKey) =>
    kysely
      .selectFrom('statuses')
      .select('context')
      .where('repository_id', '=', repositoryId)
      .where('sha', '=', sha)
  const later = (moment: unknown) => sql<number>`${sql.raw(dialect.greatest)}(${moment}, statuses.updated_at)`
  const orReplace = (conflict: OnConflictBuilder<Tables, 'statuses'>) =>
    conflict.columns(['repository_id', 'sha', 'context']).doUpdateSet({
      state: (eb) => eb.ref('excluded.state'),
      description: (eb) => eb.ref('excluded.description'),
      target_url: (eb) => eb.ref('excluded.target_url'),
      updated_at: later(sql.ref('excluded.updated_at')),
      reporter_id: (eb) => eb.ref('excluded.reporter_id'),
    })

  const upsert = prepare<ReportValues>()((p) =>
    kysely.insertInto('statuses').values(rowOf(p)).onConflict(orReplace).returning(decided),
  )
  const upsertWithin = prepare<ReportValues & { limit: number }>()((p) => {
    const row = rowOf(p)
    const isThere = contextsOf(p).where('context', '=', p.context)
    const counted = kysely
      .selectFrom(contextsOf(p).limit(p.limit).as('contexts'))
      .select(({ fn }) => fn.countAll<number>().as('rows'))
    return kysely
      .insertInto('statuses')
      .columns(stored)
      .expression(
        kysely
          .selectNoFrom(({ val }) => stored.map((name) => val(row[name]).as(name)))
          .where((eb) => eb.or([eb.exists(isThere), eb(counted, '<', p.limit)])),
      )
      .onConflict(orReplace)
      .returning(decided)
  })
  const replace = prepare<ReportValues>()((p) =>
    kysely
      .updateTable('statuses')
      .set({
        state: p.state,
        description: p.description,
        target_url: p.targetUrl,
        updated_at: later(p.now),
        reporter_id: p.reporterId,
      })
      .where('repository_id', '=', p.repositoryId)
      .where('sha', '=', p.sha)
      .where('context', '=', p.context)
      .returning(decided),
  )
  const countContexts = prepare<ReportValues>()((p) =>
    kysely
      .selectFrom(contextsOf(p).limit(maxContexts).as('contexts'))
      .select(({ fn }) => fn.countAll<number>().as('rows')),
  )
  const write: LimitedWrite<ReportValues, Pick<StatusRow, (typeof decided)[number]>> = {
    limit: maxContexts,
    upsert,
    upsertWithin,
    replace,
    count: countContexts,
    isNew: (row, { id }) => row.id === id,
  }

  const allOf = ({ repositoryId, sha }: CommitKey) =>
    kysely
      .selectFrom('statuses')
      .select(statusColumns)
      .where('repository_id', '=', repositoryId)
      .where('sha', '=', sha)
      .orderBy('context')
  const ofCommit = prepare<CommitKey>()((p) => allOf(p).limit(UNSLICED_ROWS + 1))
  const ofLargeCommit = prepare<CommitKey>()(allOf)

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
      const values = { ...report, reporterId: report.reporterId ?? null, id: newId(), now: nowInSeconds() }
      const group = commitCacheKey({ repositoryId, sha })
      const row = await engine.writeLimited(write, values, group).catch((error: unknown) => {
        // One deleted meanwhile leaves nothing behind.
        if (error instanceof ForeignKeyViolation) return undefined
        throw error
      })
      if (row) return { ...row, sha, context, state, description, target_url: targetUrl }
      if (row === undefined) return undefined
      throw new TooManyContexts(maxContexts)
    },

    /**
     * Returns all statuses of a commit, ordered by the code points of `context`. Returns the same array as before while
     * the database is sure that nothing has changed.
     *
     * @param admit awaited before many rows are read; not called when they are cached
     */
    async list(repositoryId: number, sha: string, admit?: () => Promise<void>): Promise<StatusRow[]> {
      const key = commitCacheKey({ repositoryId, sha })
      const rows = await engine.read(ofCommit, { repositoryId, sha }, { key })
      if (rows.length <= UNSLICED_ROWS) return rows
      return engine.readLarge(ofLargeCommit, { repositoryId, sha }, key, admit)
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
