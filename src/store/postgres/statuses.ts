import { createHash } from 'node:crypto'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { StatusState } from '../../domain/states.ts'
import type { ReportedContext } from '../../domain/verdict.ts'
import { DELETED } from '../deleted-repositories.ts'
import type { DialectSql, SchemaFunction } from '../engine.ts'
import { type Prepared, prepare } from '../prepared.ts'
import { claimLeft } from '../statuses/claims.ts'
import {
  type DecidedFields,
  type DecidedOfRun,
  decidedOfRun,
  type GivenFields,
  givenColumns,
  type ReportKind,
  timeLeft,
  typeOf,
} from '../statuses/columns.ts'
import type { RunSql } from '../statuses/runs.ts'
import { countsOf, FAILED, type FailedContext, MAX_FAILED } from '../statuses/status-summaries.ts'
import { insertions, type ReportedSql, replacements, unlessRefused } from '../statuses/stored-values.ts'
import type { Queries, Tables } from '../tables.ts'
import { LOCK_TIMEOUT } from './calls.ts'
import { TOO_LATE } from './driver-errors.ts'

/** Limits how long the rest of the transaction waits for a lock. */
const LIMIT_WAITS = `set_config('lock_timeout', '${LOCK_TIMEOUT}', true)`

/**
 * Milliseconds that a report must have left to share a statement, which is stored as a whole before
 * the first of its reports is late: whoever sends bodies slowly would undo those of others. A statement
 * mostly takes a tenth of it. With more, all would be stored alone when the database is slow.
 */
const SHARED_TIME = 100

/**
 * Fails if the statement has taken longer than its milliseconds: whatever it has written is rolled
 * back. Nothing that comes later waits for a lock.
 */
const FAIL_IF_LATE = `if extract(epoch from clock_timestamp() - statement_timestamp()) * 1000 > time_left then
      raise exception 'a report would be stored later than it may' using errcode = '${TOO_LATE}';
    end if;`

/** What the functions are given of a report. */
const reportParameters = [
  ...givenColumns.map((name) => ({ name, type: typeOf(name) })),
  { name: 'elapsed', type: 'bigint' },
] as const

/** What the functions return of a report. */
const reportResults = [
  ...decidedOfRun.map((name) => ({ name, type: typeOf(name) })),
  { name: 'claim_left', type: 'bigint' },
] as const
const resultNames = reportResults.map(({ name }) => name)
const resultColumns = reportResults.map(({ name, type }) => `${name} ${type}`).join(', ')

/** The functions that store a report, and several. */
interface ReportFunctions {
  one: SchemaFunction
  several: SchemaFunction
}

export function reportFunctions(dialect: RunSql): ReportFunctions {
  const one = reportFunction(dialect)
  return { one, several: reportsFunction(one) }
}

/**
 * Returns a function with a name that no other text has. So servers whose functions differ, as do
 * those of two versions beside each other, call each their own.
 *
 * @param definition what comes after the name
 */
function namedByText(name: string, definition: string): SchemaFunction {
  const digest = createHash('sha256').update(definition).digest('hex').slice(0, 16)
  return { name: `${name}_${digest}`, sql: `create function ${name}_${digest}${definition}` }
}

/**
 * Returns the function that stores a report unless the commit has `max_contexts` other contexts, or
 * the repository is deleted. It returns no row then.
 *
 * Each of its statements sees what was committed before it began. So what is counted after the lock
 * was taken includes every context that another transaction added under the same lock, which it
 * holds until its commit. A replacing report takes no lock. Commits whose keys collide just wait
 * for each other.
 *
 * A report that has waited for longer than `time_left`, in milliseconds, is not stored: the statement
 * fails.
 *
 * The statements that compare runs take half as long again as those for a report that names none, so
 * each kind has its own.
 *
 * The names of columns are qualified where they are also columns of the result.
 */
function reportFunction(dialect: RunSql): SchemaFunction {
  const parameters = reportParameters.map(({ name, type }) => `new_${name} ${type}`)
  const decided = decidedOfRun.map((name) => `statuses.${name}`).join(', ')
  const same = 'repository_id = new_repository_id and sha = new_sha and context = new_context'
  const isPresent = `exists (select from repositories where repositories.id = new_repository_id and owner_key <> '${DELETED}')`
  const reported: ReportedSql = (name) => `new_${name}`
  const store = (kind: ReportKind, claimLeft: string) => {
    const inserted = insertions(reported, kind)
    const set = assignments(replacements(reported, dialect, kind))
    const returning = `returning ${decided}, ${claimLeft}`
    return `return query update statuses set ${set} where ${same} and ${isPresent} ${returning};
      if not found then
        perform pg_advisory_xact_lock(hashtextextended(new_sha, new_repository_id));
        return query insert into statuses (${inserted.map(([name]) => name).join(', ')})
          select ${inserted.map(([, value]) => value).join(', ')}
          where ${isPresent} and (exists (select from statuses where ${same})
            or not exists (
              select from statuses where repository_id = new_repository_id and sha = new_sha offset max_contexts - 1))
          on conflict (repository_id, sha, context) do update set ${set}
          ${returning};
      end if;`
  }
  return namedByText(
    'report_status',
    `(${parameters.join(', ')}, max_contexts bigint, time_left bigint)
  returns table (${resultColumns}) language plpgsql as $$
  declare
    new_run_began_at bigint;
    new_claimed_at bigint;
  begin
    if new_run is null then
      ${store('plain', 'null::bigint')}
    elsif new_claim_seconds is null then
      new_run_began_at := ${dialect.clock} - new_elapsed;
      ${store('run', 'null::bigint')}
    else
      new_claimed_at := ${dialect.clock};
      new_run_began_at := new_claimed_at - new_elapsed;
      ${store('claim', claimLeft(dialect, 'new_claimed_at', 'new_claim_seconds'))}
    end if;
    ${FAIL_IF_LATE}
  end $$`,
  )
}

/**
 * Returns what an update sets. Whether a report is refused is decided once for all columns:
 * PostgreSQL prepares an expression for each call, and a condition that each of 13 columns repeats
 * makes a claim half as dear again. `offset 0` keeps the planner from repeating it. A row that was
 * locked meanwhile is decided as it is then, since the values follow from the row.
 */
function assignments({ values, isRefused }: ReturnType<typeof replacements>): string {
  if (isRefused === undefined) return values.map(([name, value]) => `${name} = ${value}`).join(', ')
  return `(${values.map(([name]) => name).join(', ')}) = (
    select ${values.map((of) => unlessRefused('decision.is_refused', of)).join(', ')}
    from (select ${isRefused} as is_refused offset 0) as decision)`
}

/**
 * Returns the function that stores several reports as `reportFunction` does each of them. It takes
 * an array of each parameter, and returns the numbers of the reports, from 1, with their results. If
 * one of them is late, none is stored.
 *
 * Reports that are stored at once never deadlock, because all take their locks in the same order:
 * the advisory locks of commits that get a new context in the order of their numbers, which may
 * collide, then rows in the order of their keys. (`distinct` alone promises no order.) There is one
 * exception: the report of a row that is deleted in between takes the advisory lock late. Reports of
 * the same row are stored in the order of the arrays.
 */
function reportsFunction(one: SchemaFunction): SchemaFunction {
  const names = reportParameters.map(({ name }) => name)
  const parameters = reportParameters.map(({ name, type }) => `new_${name} ${type}[]`)
  const reports = `unnest(${names.map((name) => `new_${name}`).join(', ')}) with ordinality
    as report (${names.join(', ')}, number)`
  const values = names.map((name) => `new_${name} => ordered.${name}`).join(', ')
  return namedByText(
    'report_statuses',
    `(${parameters.join(', ')}, max_contexts bigint, time_left bigint)
  returns table (report_number bigint, ${resultColumns}) language plpgsql as $$
  begin
    perform ${LIMIT_WAITS};
    perform pg_advisory_xact_lock(commits.lock) from (
      select distinct hashtextextended(report.sha, report.repository_id) as lock from ${reports}
      where not exists (
        select from statuses
        where repository_id = report.repository_id and sha = report.sha and context = report.context)
      order by lock) as commits;
    return query select ordered.number, stored.* from (
        select report.* from ${reports} order by repository_id, sha, context, number
      ) as ordered
      cross join lateral ${one.name}(${values}, max_contexts => max_contexts, time_left => null) as stored;
    ${FAIL_IF_LATE}
  end $$`,
  )
}

/**
 * Returns the calls of these functions: a statement that counts would not see others that run at
 * once.
 */
export function reporting(
  { one, several }: ReportFunctions,
  kysely: Kysely<Tables>,
  maxContexts: number,
): ReturnType<DialectSql['reporting']> {
  const reportCall = (contexts: RawBuilder<number>): Prepared<GivenFields, DecidedOfRun> => {
    const query = prepare<GivenFields & { time_left: number | null }>()((p) => {
      const values = reportParameters.map(({ name }) => sql`${sql.raw(`new_${name}`)} => ${p[name]}`)
      const call = sql<DecidedOfRun>`${sql.raw(one.name)}(${sql.join(values)}, max_contexts => ${contexts}, time_left => ${p.time_left})`
      return kysely.selectFrom(call.as('reported')).select(resultNames)
    })
    const { name, sql: text } = query
    return { name, sql: text, bind: (report) => query.bind({ ...report, time_left: timeLeft(report) }) }
  }
  const most = sql.lit(maxContexts)
  // A function's arguments are evaluated before it begins.
  const limited = sql<number>`case when ${sql.raw(LIMIT_WAITS)} is not null then ${most} end`
  const arrays = reportParameters.map(({ name, type }, index) => `new_${name} => $${index + 1}::${type}[]`)
  const statement: Prepared<GivenFields, DecidedFields> = {
    ...reportCall(most),
    batch: {
      single: reportCall(limited),
      sql: `select report_number, ${resultNames.join(', ')}
        from ${several.name}(${arrays.join(', ')}, max_contexts => ${maxContexts}, time_left => $${arrays.length + 1})`,
      bind: (reports) => [
        ...reportParameters.map(({ name }) => reports.map((report) => report[name])),
        leastTimeLeft(reports),
      ],
      mayShare: (report) => (timeLeft(report) ?? SHARED_TIME) >= SHARED_TIME,
      rowOf: ({ repository_id, sha, context }) => `${repository_id} ${sha} ${context}`,
    },
  }
  // One statement for all, so that reports with and without a run share batches.
  return () => statement
}

/** Returns the shortest time that a report has left; null if all may be stored at any time. */
function leastTimeLeft(reports: readonly GivenFields[]): number | null {
  const times = reports.map(timeLeft).filter((time) => time !== null)
  return times.length === 0 ? null : Math.min(...times)
}

/** Returns statements for many commits, because each is a round trip. */
export function ofCommits(kysely: Queries): ReturnType<NonNullable<DialectSql['ofCommits']>> {
  const keys = (commits: string) =>
    sql<{ n: number; repository_id: number; sha: string }>`json_to_recordset(cast(${commits} as json))`
  const failedContexts = sql<FailedContext[] | null>`
    (array_agg(json_build_object('context', context, 'targetUrl', target_url, 'failedAt', updated_at) order by context)
      filter (where state in (${sql.join(FAILED)})))[1:${sql.lit(MAX_FAILED)}]`
  return {
    summaries: prepare<{ commits: string }>()((p) =>
      kysely
        .selectFrom(keys(p.commits).as<'keys'>(sql`keys (n integer, repository_id bigint, sha text)`))
        .crossJoinLateral(
          countsOf(kysely.selectFrom('statuses'))
            .select(failedContexts.as('failed'))
            .whereRef('statuses.repository_id', '=', sql.ref('keys.repository_id'))
            .whereRef('statuses.sha', '=', sql.ref('keys.sha'))
            .as('summary'),
        )
        .selectAll('summary')
        .orderBy('keys.n'),
    ),
    // To receive 30,000 rows takes most of the time of a page.
    states: prepare<{ repositoryId: number; shas: string }>()((p) =>
      kysely
        .selectFrom('statuses')
        .select([
          'sha',
          sql<string[]>`json_agg(context)`.as('contexts'),
          sql<StatusState[]>`json_agg(state)`.as('states'),
        ])
        .where('repository_id', '=', p.repositoryId)
        .where(sql<boolean>`sha ${isOneOf(p.shas)}`)
        .groupBy('sha'),
    ),
    contexts: prepare<{ repositoryId: number; shas: string; known: string }>()((p) =>
      kysely
        .selectFrom(
          kysely
            .selectFrom('statuses')
            .select([
              'sha',
              sql<
                ReportedContext[]
              >`json_agg(json_build_object('context', context, 'state', state) order by context)`.as(
                'all_contexts',
              ),
            ])
            .where('repository_id', '=', p.repositoryId)
            .where(sql<boolean>`sha ${isOneOf(p.shas)}`)
            .groupBy('sha')
            .as('reported'),
        )
        .crossJoinLateral(
          sql<{
            digest: string
          }>`(select encode(sha256(convert_to(all_contexts::text, 'UTF8')), 'base64') as digest)`.as<'digests'>(
            sql`digests`,
          ),
        )
        .select([
          'sha',
          'digest',
          // Parsed by the reader, when it is its turn.
          sql<string | null>`case when digest ${isOneOf(p.known)} then null else all_contexts::text end`.as(
            'contexts',
          ),
        ]),
    ),
  }
}

/**
 * Follows a text: whether it is one of a JSON array. As a join, the planner would read all rows of
 * the repository.
 */
export const isOneOf: DialectSql['isOneOf'] = (texts) =>
  sql`= any(array(select value from json_array_elements_text(${texts})))`

/** The table of the texts of a JSON array. */
export const elements: DialectSql['elements'] = (texts) =>
  sql`(select ordinality - 1 as position, value from json_array_elements_text(cast(${texts} as json)) with ordinality)`
