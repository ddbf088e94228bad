import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Administrator } from '../../domain/actors.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { Result } from '../../domain/reported-results.ts'
import { ServiceError } from '../../errors.ts'
import type { Change } from '../audit/change.ts'
import { repositoryNameOf } from '../audit/event-rows.ts'
import { isPresent } from '../deleted-repositories.ts'
import { type Engine, ForeignKeyViolation } from '../engine.ts'
import { prepare } from '../prepared.ts'
import type { Queries } from '../tables.ts'
import { newId, nowInSeconds } from '../time.ts'
import { awaitedKey } from './awaited.ts'
import { refusalOf } from './claims.ts'
import {
  answeredColumns,
  fieldsOf,
  type GivenFields,
  type ReportedFields,
  type StatusRow,
} from './columns.ts'
import { requestRun } from './request-run.ts'

/**
 * A status with the names of the user and the token of its latest report; null if it is older than
 * their record.
 */
export interface ReportedStatus extends StatusRow {
  reporter_user: string | null
  reporter_token: string | null
  /** When the check that has ended was last reported as pending; null if that is not known. */
  pending_at: number | null
  /** The run that sent the latest report, and the last one that has claimed the check; null: none. */
  run: string | null
  claim_run: string | null
}

export type Report = ReportedFields & {
  repositoryId: number
  sha: string
  /** The `reporter_id` of the token that sent it. */
  reporterId?: number | null
  /** The run that sent it. */
  run?: string
  /** Milliseconds since that run began; 0 unless given. */
  elapsed?: number
  /** Seconds for which that run claims the check. */
  claim?: number
  /** When it may be stored at the latest, by `performance.now()`; no limit if missing. */
  storedBy?: number
}

/** A status that was just reported. */
export interface StoredReport extends StatusRow {
  /** Until when the claim holds, in seconds since the epoch by the database's clock; missing without one. */
  claimed_until?: number
}

/** A commit of a repository. */
export interface CommitKey {
  repositoryId: number
  sha: string
}

/** Names a commit's statuses where they are cached. */
export function commitCacheKey({ repositoryId, sha }: CommitKey): string {
  return `statuses ${repositoryId} ${sha}`
}

/** Names what follows from the statuses of any commits of a repository where it is cached. */
export function repositoryCacheKey(repositoryId: number): string {
  return `statuses ${repositoryId}`
}

/** Returns a query of the statuses of a commit. */
export function statusesOf(kysely: Queries, { repositoryId, sha }: CommitKey) {
  return kysely.selectFrom('statuses').where('repository_id', '=', repositoryId).where('sha', '=', sha)
}

/**
 * Returns functions that manage statuses: one per context of a commit, the latest report.
 *
 * @param maxContexts contexts that a commit may have
 */
export function createStatusStore(engine: Engine, maxContexts: number) {
  const { kysely, dialect } = engine
  const statementFor = dialect.reporting(kysely, maxContexts)

  const ofCommit = prepare<CommitKey>()((p) =>
    statusesOf(kysely, p).select(answeredColumns).orderBy('context'),
  )

  const withReporters = prepare<CommitKey>()((p) =>
    statusesOf(kysely, p)
      .leftJoin('reporters', 'reporters.id', 'statuses.reporter_id')
      .select(answeredColumns.map((column) => `statuses.${column}` as const))
      .select([
        'pending_at',
        'run',
        'claim_run',
        'reporters.user_name as reporter_user',
        // That of a user without a token is empty.
        sql<string | null>`nullif(reporters.token_name, '')`.as('reporter_token'),
      ])
      .orderBy('context'),
  )

  const listWithReporters = (commit: CommitKey): Promise<ReportedStatus[]> =>
    engine.read(withReporters, commit, { key: commitCacheKey(commit), variant: 'reporters' })

  // Without descriptions and links, which may have megabytes.
  const results = prepare<CommitKey>()((p) =>
    statusesOf(kysely, p)
      .leftJoin('reporters', 'reporters.id', 'statuses.reporter_id')
      .select(['context', 'reporters.user_name as user', 'updated_at as reportedAt'])
      .where('state', '<>', 'pending')
      .orderBy('context'),
  )

  const present = prepare<{ id: number }>()((p) =>
    kysely.selectFrom('repositories').select('id').where('id', '=', p.id).where(isPresent),
  )

  const any = prepare<CommitKey>()((p) => statusesOf(kysely, p).select('sha').limit(1))

  return {
    /**
     * Stores a report. The latest committed one wins, among those of runs as `runs.ts` says; it
     * keeps the `id` and `created_at` of the first, and `updated_at` never goes back, even if the
     * clock does.
     *
     * @returns the status as it now reads, or undefined when the repository is gone
     * @throws ServiceError `field_invalid` for a new context of a commit that has as many as it
     * may; as `refusalOf` returns it for a report of a run that changes nothing; WrittenTooLate if
     * it cannot be stored by `storedBy`; StoreUnavailable
     */
    async report(report: Report): Promise<StoredReport | undefined> {
      const fields = { sha: report.sha, ...fieldsOf(report) }
      const now = nowInSeconds()
      const status: GivenFields = {
        ...fields,
        repository_id: report.repositoryId,
        id: newId(),
        created_at: now,
        updated_at: now,
        reporter_id: report.reporterId ?? null,
        run: report.run ?? null,
        elapsed: report.run === undefined ? null : (report.elapsed ?? 0),
        claim_seconds: report.claim ?? null,
        stored_by: report.storedBy ?? null,
      }
      const keys = [commitCacheKey(report), awaitedKey(report), repositoryCacheKey(report.repositoryId)]
      const rows = await engine.write(statementFor(status), status, ...keys).catch((error: unknown) => {
        // One deleted meanwhile leaves nothing behind.
        if (error instanceof ForeignKeyViolation) return undefined
        throw error
      })
      if (rows === undefined) return undefined
      const [row] = rows
      if (row === undefined && (await engine.read(present, { id: report.repositoryId })).length === 0)
        return undefined
      if (row === undefined)
        throw new ServiceError(
          'field_invalid',
          `context: this commit already has ${maxContexts} contexts, the maximum. Report to an existing one instead.`,
        )
      const refusal = refusalOf(status, row)
      if (refusal) throw refusal
      const { run: _, claim_left: __, claimed_at: claimedAt, ...decided } = row
      const stored = { ...decided, ...fields }
      if (report.claim === undefined || claimedAt === undefined || claimedAt === null) return stored
      return { ...stored, claimed_until: Math.floor(claimedAt / 1000) + report.claim }
    },

    /**
     * Returns all statuses of a commit, ordered by the code points of `context`. Returns the same
     * array as before while the database is sure that nothing has changed.
     */
    list(repositoryId: number, sha: string): Promise<StatusRow[]> {
      const commit = { repositoryId, sha }
      return engine.read(ofCommit, commit, { key: commitCacheKey(commit) })
    },

    /** Returns all statuses of a commit with their reporters, as `list`. */
    listWithReporters,

    /** Returns the checks of commits that have ended. @param shas few: each is a read */
    async listResults(repositoryId: number, shas: readonly string[]): Promise<Result[]> {
      const all: Result[] = []
      for (const sha of shas) {
        // All commits together may have 30,000 statuses, so other requests are served in between.
        await setImmediate()
        for (const row of await engine.read(results, { repositoryId, sha })) all.push({ sha, ...row })
      }
      return all
    },

    /** Returns ids of commits with statuses that begin with hex digits in lower case: at most two. */
    async commitsBeginning(repositoryId: number, digits: string): Promise<string[]> {
      const rows = await engine.kysely
        .selectFrom('statuses')
        .select('sha')
        .distinct()
        .where('repository_id', '=', repositoryId)
        .where('sha', '>=', digits)
        // The letter after the last digit.
        .where('sha', '<', `${digits}g`)
        .limit(2)
        .execute()
      return rows.map(({ sha }) => sha)
    },

    delete: deleteStatus,

    requestRun,

    /** Returns whether anything has been reported on the commit. */
    async hasAny(repositoryId: number, sha: string): Promise<boolean> {
      // A key of its own, which no report invalidates: only a deletion, which clears the cache,
      // removes all statuses.
      const cache = { key: `any ${repositoryId} ${sha}`, cacheable: (rows: unknown[]) => rows.length > 0 }
      return (await engine.read(any, { repositoryId, sha }, cache)).length > 0
    },
  }
}

/**
 * Removes the status of a context. The next read in every process is without it: a change is on
 * Kysely's connection, whose commits clear the caches, since `hasAny` and the number of contexts
 * change too.
 *
 * @throws Refusal if nothing was reported for the context
 */
async function deleteStatus(
  change: Change<Administrator>,
  { repositoryId, sha }: CommitKey,
  context: string,
): Promise<void> {
  const { db } = change
  const deletedStatus = await db
    .deleteFrom('statuses')
    .where('repository_id', '=', repositoryId)
    .where('sha', '=', sha)
    .where('context', '=', context)
    .returning('context')
    .executeTakeFirst()
  const name = await repositoryNameOf(db, repositoryId)
  if (!deletedStatus || !name)
    throw new Refusal(`the commit ${sha} has no status of the context "${context}"`)
  const repository = { id: repositoryId, name }
  await change.record({ action: 'status.deleted', repository, details: { sha, context } })
}
