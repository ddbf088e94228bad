import { type Kysely, sql } from 'kysely'
import type { DialectSql } from '../engine.ts'
import { type Prepared, prepare } from '../prepared.ts'
import {
  type DecidedFields,
  decidedColumns,
  decidedOfRun,
  type GivenFields,
  givenColumns,
  insertions,
  isOfAnyReport,
  replacements,
  replacementsWithoutRun,
} from '../statuses/columns.ts'
import type { RunSql } from '../statuses/runs.ts'
import type { Tables } from '../tables.ts'

/**
 * Returns the statement for a report. Only for one of a run, it is the one that compares runs, which
 * takes time.
 */
export const reporting = (
  dialect: RunSql,
  kysely: Kysely<Tables>,
  maxContexts: number,
): ReturnType<DialectSql['reporting']> => {
  const ofRun = storing(dialect, kysely, maxContexts, true)
  const withoutRun = storing(dialect, kysely, maxContexts, false)
  return ({ run }) => (run === null ? withoutRun : ofRun)
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
  isOfRun: boolean,
): Prepared<GivenFields, DecidedFields> =>
  prepare<GivenFields>()((p) => {
    const isStored = isOfRun ? () => true : isOfAnyReport
    const reportedRow = kysely.selectNoFrom(({ val }) => [
      ...givenColumns.filter(isStored).map((name) => val(p[name]).as(name)),
      ...(isOfRun ? [sql<number>`${sql.raw(dialect.clock)} - ${p.elapsed}`.as('run_began_at')] : []),
    ])
    const contexts = kysely
      .selectFrom('statuses')
      .select('context')
      .where('repository_id', '=', sql.ref<number>('reported.repository_id'))
      .where('sha', '=', sql.ref<string>('reported.sha'))
    const same = contexts.where('context', '=', sql.ref<string>('reported.context'))
    const last = contexts.limit(sql.lit(1)).offset(sql.lit(maxContexts - 1))
    const inserted = insertions((name) => `reported.${name}`).filter(([name]) => isStored(name))
    const replaced = (isOfRun ? replacements : replacementsWithoutRun)((name) => `excluded.${name}`, dialect)
    return kysely
      .insertInto('statuses')
      .columns(inserted.map(([name]) => name))
      .expression(
        kysely
          .selectFrom(reportedRow.as('reported'))
          .select(inserted.map(([name, value]) => sql.raw(value).as(name)))
          .where(({ or, exists, not }) => or([exists(same), not(exists(last))])),
      )
      .onConflict((conflict) =>
        conflict
          .columns(['repository_id', 'sha', 'context'])
          .doUpdateSet(Object.fromEntries(replaced.map(([name, value]) => [name, sql.raw<never>(value)]))),
      )
      .returning(isOfRun ? decidedOfRun : decidedColumns)
  })
