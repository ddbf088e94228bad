import { type Kysely, sql } from 'kysely'
import { isPresent } from '../deleted-repositories.ts'
import type { DialectSql } from '../engine.ts'
import { type Prepared, prepare } from '../prepared.ts'
import { claimLeft } from '../statuses/claims.ts'
import {
  type DecidedFields,
  decidedColumns,
  decidedOfRun,
  type GivenFields,
  givenColumns,
  hasColumn,
  type ReportKind,
  timeLeft,
} from '../statuses/columns.ts'
import type { RunSql } from '../statuses/runs.ts'
import { insertions, replacements, unlessRefused } from '../statuses/stored-values.ts'
import type { Tables } from '../tables.ts'

/**
 * Returns the statement for a report. Only for one of a run, it is one that compares runs, which
 * takes time.
 */
export const reporting = (
  dialect: RunSql,
  kysely: Kysely<Tables>,
  maxContexts: number,
): ReturnType<DialectSql['reporting']> => {
  const statementOf = (kind: ReportKind) => storing(dialect, kysely, maxContexts, kind)
  const [plain, ofRun, ofClaim] = [statementOf('plain'), statementOf('run'), statementOf('claim')]
  return ({ run, claim_seconds }) => (run === null ? plain : claim_seconds === null ? ofRun : ofClaim)
}

/**
 * Returns one statement: transactions that write run one after the other, so what it counts stays
 * true. SQLite does not evaluate the second condition if the first one is true, so only a new
 * context costs reading the others.
 */
const storing = (
  dialect: RunSql,
  kysely: Kysely<Tables>,
  maxContexts: number,
  kind: ReportKind,
): Prepared<GivenFields, DecidedFields> => ({
  isLate: (report) => (timeLeft(report) ?? 0) < 0,
  ...prepare<GivenFields>()((p) => {
    const clock = sql<number>`${sql.raw(dialect.clock)}`
    const reportedRow = kysely.selectNoFrom(({ val }) => [
      ...givenColumns.filter((name) => hasColumn(kind, name)).map((name) => val(p[name]).as(name)),
      ...(kind === 'plain' ? [] : [sql<number>`${clock} - ${p.elapsed}`.as('run_began_at')]),
      ...(kind === 'claim' ? [clock.as('claimed_at')] : []),
    ])
    const contexts = kysely
      .selectFrom('statuses')
      .select('context')
      .where('repository_id', '=', sql.ref<number>('reported.repository_id'))
      .where('sha', '=', sql.ref<string>('reported.sha'))
    const same = contexts.where('context', '=', sql.ref<string>('reported.context'))
    const last = contexts.limit(sql.lit(1)).offset(sql.lit(maxContexts - 1))
    const present = kysely
      .selectFrom('repositories')
      .select('id')
      .where('id', '=', sql.ref<number>('reported.repository_id'))
      .where(isPresent)
    // Text has no parameters.
    const [before = '', after = ''] = claimLeft(dialect, dialect.clock, '?').split('?')
    const left =
      kind === 'claim'
        ? sql<number | null>`${sql.raw(before)}${p.claim_seconds}${sql.raw(after)}`
        : sql<number | null>`null`
    const inserted = insertions((name) => `reported.${name}`, kind)
    const { values, isRefused } = replacements((name) => `excluded.${name}`, dialect, kind)
    const replaced = values.map((of) => [of[0], sql.raw<never>(unlessRefused(isRefused, of))])
    return kysely
      .insertInto('statuses')
      .columns(inserted.map(([name]) => name))
      .expression(
        kysely
          .selectFrom(reportedRow.as('reported'))
          .select(inserted.map(([name, value]) => sql.raw(value).as(name)))
          .where(({ or, exists, not }) => or([exists(same), not(exists(last))]))
          .where(({ exists }) => exists(present)),
      )
      .onConflict((conflict) =>
        conflict.columns(['repository_id', 'sha', 'context']).doUpdateSet(Object.fromEntries(replaced)),
      )
      .returning(kind === 'plain' ? decidedColumns : [...decidedOfRun, left.as('claim_left')])
  }),
})
