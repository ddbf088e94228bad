import { type OnConflictBuilder, sql } from 'kysely'
import { ADMINISTRATOR, type Audit } from './audit.ts'
import { type Engine, ForeignKeyViolation, type LimitedWrite } from './engine.ts'
import { newId } from './ids.ts'
import { prepare } from './prepared.ts'
import { RuleViolation } from './rule-violation.ts'
import { type CommitKey, commitCacheKey, statusSummaries } from './status-summaries.ts'
import type { StatusState, Tables } from './tables.ts'
import { nowInSeconds } from './time.ts'

export type { CommitKey }

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

/** The contexts of a commit with their states, as JSON. */
export interface CommitContents extends CommitKey {
  contents: string | null
}

/** Statuses that are read and answered at once, however large each of them is: that takes some milliseconds. */
const FEW = 256

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

/** The commit has as many contexts as it may, so one more is not stored. */
export class TooManyContexts extends Error {
  override name = 'TooManyContexts'

  /** @param limit most contexts of a commit */
  constructor(limit: number) {
    super(
      `context: this commit already has the most contexts allowed (${limit}). Report to one of them instead.`,
    )
  }
}

interface ReportValues extends Report {
  reporterId: number | null
  /** Of the status, if it is a new one. */
  id: string
  now: number
}

const stored = ['repository_id', ...columns, 'reporter_id'] as const

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
 * Statuses: at most one for each context of a commit, the latest report.
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
      .select(columns)
      .where('repository_id', '=', repositoryId)
      .where('sha', '=', sha)
      .orderBy('context')
  const ofCommit = prepare<CommitKey>()((p) => allOf(p).limit(FEW + 1))
  const ofLargeCommit = prepare<CommitKey>()(allOf)

  const part = prepare<{ repositoryId: number; sha: string; after: string; limit: number }>()((p) =>
    kysely
      .selectFrom('statuses')
      .leftJoin('reporters', 'reporters.id', 'statuses.reporter_id')
      .select(columns.map((column) => `statuses.${column}` as const))
      .select(['reporters.user_name as reporter_user', 'reporters.token_name as reporter_token'])
      .where('repository_id', '=', p.repositoryId)
      .where('sha', '=', p.sha)
      .where('context', '>', p.after)
      .orderBy('context')
      .limit(p.limit),
  )

  const { elements, array, aggregate } = engine.dialect.json
  const contents = prepare<{ commits: string }>()((p) =>
    kysely.selectFrom(sql<{ value: unknown }>`${sql.raw(elements)}(${p.commits})`.as('asked')).select([
      sql<number>`cast(asked.value ->> 0 as bigint)`.as('repositoryId'),
      sql<string>`asked.value ->> 1`.as('sha'),
      (eb) =>
        eb
          .selectFrom((db) =>
            // A subquery in the order of the index. Within the aggregate, `order by` would sort once more.
            db
              .selectFrom('statuses')
              .select(['context', 'state'])
              .whereRef('repository_id', '=', sql`cast(asked.value ->> 0 as bigint)`)
              .whereRef('sha', '=', sql`asked.value ->> 1`)
              .orderBy('context')
              .as('contexts'),
          )
          .select(
            sql<string | null>`cast(${sql.raw(aggregate)}(${sql.raw(array)}(context, state)) as text)`.as(
              'contents',
            ),
          )
          .as('contents'),
    ]),
  )

  const partByState = prepare<
    CommitKey & { one: StatusState; other: StatusState; after: string; limit: number }
  >()((p) =>
    kysely
      .selectFrom('statuses')
      .leftJoin('reporters', 'reporters.id', 'statuses.reporter_id')
      .select(columns.map((column) => `statuses.${column}` as const))
      .select(['reporters.user_name as reporter_user', 'reporters.token_name as reporter_token'])
      .where('repository_id', '=', p.repositoryId)
      .where('sha', '=', p.sha)
      .where('state', 'in', [p.one, p.other])
      .where('context', '>', p.after)
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

  const any = prepare<CommitKey>()((p) => contextsOf(p).limit(1))

  return {
    ...statusSummaries(engine),

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
      if (rows.length <= FEW) return rows
      return engine.readLarge(ofLargeCommit, { repositoryId, sha }, key, admit)
    },

    /**
     * The next statuses of a commit with their reporters, ordered by the code points of `context`. What was read before
     * may be out of date by then.
     *
     * @param after a context; those behind it are read. Empty: from the first one on
     */
    listPart(repositoryId: number, sha: string, after: string, limit: number): Promise<ReportedStatus[]> {
      return engine.read(part, { repositoryId, sha, after, limit })
    },

    /** Returns the next statuses of a commit that have one of the states. Otherwise as `listPart`. */
    listPartByState(
      { repositoryId, sha }: CommitKey,
      [one, other = one]: readonly [StatusState, StatusState?],
      after: string,
      limit: number,
    ): Promise<ReportedStatus[]> {
      return engine.read(partByState, { repositoryId, sha, one, other, after, limit })
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
        const repository = await db
          .selectFrom('repositories')
          .select(['owner', 'name'])
          .where('id', '=', repositoryId)
          .executeTakeFirst()
        if (!deleted || !repository)
          throw new RuleViolation(`the commit ${sha} has no status of the context "${context}"`)
        await record({
          by: ADMINISTRATOR,
          action: 'status.deleted',
          repository: `${repository.owner}/${repository.name}`,
          details: { sha, context },
        })
      })
    },

    /**
     * Returns the contexts of each commit with their states, as JSON that is equal while they are: an array of pairs,
     * ordered by the code points of the context; null for none. One statement for all commits.
     */
    contents(commits: readonly CommitKey[]): Promise<CommitContents[]> {
      const asked = commits.map(({ repositoryId, sha }) => [repositoryId, sha])
      return engine.read(contents, { commits: JSON.stringify(asked) })
    },

    /** As `foreignChanges` of the engine; undefined if it cannot tell. */
    foreignChanges: (): unknown => engine.foreignChanges?.(),

    /** Returns whether anything has been reported on the commit. */
    async any(repositoryId: number, sha: string): Promise<boolean> {
      // A key of its own, which no report invalidates: only a deletion, which clears the cache, removes all statuses.
      const cache = { key: `any ${repositoryId} ${sha}`, cacheable: (rows: unknown[]) => rows.length > 0 }
      return (await engine.read(any, { repositoryId, sha }, cache)).length > 0
    },
  }
}
