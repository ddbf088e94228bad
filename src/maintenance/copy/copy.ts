import { type Kysely, sql } from 'kysely'
import type { Engine } from '../../store/engine.ts'
import { migrate } from '../../store/migrations.ts'
import { RuleViolation } from '../../store/rule-violation.ts'
import { openEngine, type StoreOptions } from '../../store/store.ts'
import type { Tables } from '../../store/tables.ts'
import { countRows, deleteRow, type KeyedTable, keyedTables, upsertRows } from '../rows.ts'
import { compareTable } from './compare.ts'

/** The key of the advisory lock of a copy: an arbitrary number. */
const COPY_LOCK = 7_265_019

export interface CopyProgress {
  phase: 'copy' | 'verify'
  table: string
  done: number
  total: number
}

/**
 * Copies the database to an empty PostgreSQL database, creates the schema there, and compares the two.
 *
 * @throws StoreUnavailable if a database cannot be opened; RuleViolation as `copyDatabase`
 */
export async function copyStore(
  from: StoreOptions,
  databaseUrl: string,
  onProgress: (progress: CopyProgress) => void,
): Promise<void> {
  const source = await openEngine({ ...from, statementTimeout: false })
  const target = await openEngine({
    dataDir: from.dataDir,
    databaseUrl,
    poolSize: 1,
    statementTimeout: false,
  })
  try {
    for (const engine of [source, target]) await migrate(engine)
    await copyDatabase(source, target, onProgress)
  } finally {
    await source.close()
    await target.close()
  }
}

/**
 * Makes a PostgreSQL database equal to a snapshot of `source`, with all ids and sequences, and then compares the two row
 * by row.
 *
 * An interrupted copy resumes with the next call, which writes only rows that are missing or differ. After a copy has
 * finished, another call only compares.
 *
 * @param target with the same schema; empty, or where an earlier copy was not finished
 * @throws RuleViolation if the target contains anything else, if another copy is running, or if the two differ in the end
 */
async function copyDatabase(
  source: Engine,
  target: Engine,
  onProgress: (progress: CopyProgress) => void,
): Promise<void> {
  await target.kysely.connection().execute(async (to) => {
    const { rows } = await sql<{
      alone: boolean
    }>`select pg_try_advisory_lock(${COPY_LOCK}) as alone`.execute(to)
    if (!rows[0]?.alone) throw new RuleViolation('another copy to this database is running')
    try {
      await source.kysely
        .transaction()
        .setIsolationLevel('repeatable read')
        .setAccessMode('read only')
        .execute((from) => copy({ source, target, from, to, onProgress }))
    } finally {
      await sql`select pg_advisory_unlock(${COPY_LOCK})`.execute(to)
    }
  })
}

interface Copy {
  source: Engine
  target: Engine
  from: Kysely<Tables>
  to: Kysely<Tables>
  onProgress(progress: CopyProgress): void
}

async function copy(both: Copy): Promise<void> {
  const { to } = both
  if ((await isUnfinished(to)) || (await isEmpty(to))) {
    // Marks all other rows in the target as an unfinished copy.
    await sql`create table if not exists unfinished_copy (started_at bigint not null)`.execute(to)
    for (const table of keyedTables) await copyTable(both, table)
    await verify(both)
    await sql`drop table unfinished_copy`.execute(to)
  } else {
    await verify(both).catch((error: unknown) => {
      if (!(error instanceof RuleViolation)) throw error
      throw new RuleViolation(`the target is neither empty nor a copy of this database: ${error.message}`)
    })
  }
}

async function copyTable({ source, target, from, to, onProgress }: Copy, table: KeyedTable): Promise<void> {
  const total = await countRows(from, table)
  let done = 0
  for await (const differences of compareTable(from, to, table)) {
    // Delete first: a newer row may have the same name.
    for (const row of differences.surplus) await deleteRow(to, table, row)
    await upsertRows(to, table, differences.missing)
    done += differences.compared
    onProgress({ phase: 'copy', table: table.name, done, total })
  }
  if (table.numbered) await target.setLastId(to, table.name, await source.lastId(from, table.name))
}

async function verify({ source, target, from, to, onProgress }: Copy): Promise<void> {
  for (const table of keyedTables) {
    const [total, copied] = [await countRows(from, table), await countRows(to, table)]
    if (total !== copied)
      throw new RuleViolation(`${table.name}: ${total} rows in the source, but ${copied} in the target`)
    let done = 0
    for await (const { compared, missing, surplus } of compareTable(from, to, table)) {
      if (missing.length + surplus.length > 0)
        throw new RuleViolation(`${table.name}: rows of source and target differ`)
      done += compared
      onProgress({ phase: 'verify', table: table.name, done, total })
    }
    if (!table.numbered) continue
    if ((await target.lastId(to, table.name)) < (await source.lastId(from, table.name)))
      throw new RuleViolation(`${table.name}: the target would reuse ids of deleted rows`)
  }
}

async function isUnfinished(to: Kysely<Tables>): Promise<boolean> {
  const { rows } = await sql<{
    found: boolean
  }>`select to_regclass('unfinished_copy') is not null as found`.execute(to)
  return rows[0]?.found ?? false
}

async function isEmpty(to: Kysely<Tables>): Promise<boolean> {
  for (const { name } of keyedTables) {
    const { rows } = await sql`select 1 from ${sql.table(name)} limit 1`.execute(to)
    if (rows.length > 0) return false
  }
  return true
}
