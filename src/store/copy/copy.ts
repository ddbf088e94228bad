import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'
import { Refused } from '../refused.ts'
import type { Tables } from '../tables.ts'
import { compareTable } from './compare.ts'
import { countRows, deleteRow, type KeyedTable, keyedTables, upsertRows } from './rows.ts'

/** Any number: what it locks is "this database is being copied to". */
const COPY_LOCK = 7_265_019

export interface CopyProgress {
  phase: 'copy' | 'verify'
  table: string
  done: number
  total: number
}

/**
 * Makes a PostgreSQL database equal to `source` as it is at this moment, ids and the numbers given out so far included,
 * and compares the two afterwards, row by row.
 *
 * One that was killed is taken up again by the next call, which writes only what is missing or differs. Once finished,
 * another call changes nothing: it only compares.
 *
 * @param target with the same schema; empty, or where an earlier copy was not finished
 * @throws Refused when the target holds anything else, when another copy is under way, or when the two differ in the end
 */
export async function copyDatabase(
  source: Engine,
  target: Engine,
  onProgress: (progress: CopyProgress) => void,
): Promise<void> {
  await target.kysely.connection().execute(async (to) => {
    const { rows } = await sql<{
      alone: boolean
    }>`select pg_try_advisory_lock(${COPY_LOCK}) as alone`.execute(to)
    if (!rows[0]?.alone) throw new Refused('another copy to this database is under way')
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
    // Whoever finds this table knows that what else is here came from a copy.
    await sql`create table if not exists unfinished_copy (started_at bigint not null)`.execute(to)
    for (const table of keyedTables) await copyTable(both, table)
    await verify(both)
    await sql`drop table unfinished_copy`.execute(to)
  } else {
    await verify(both).catch((error: unknown) => {
      if (!(error instanceof Refused)) throw error
      throw new Refused(`the target is neither empty nor a copy of this database: ${error.message}`)
    })
  }
}

async function copyTable({ source, target, from, to, onProgress }: Copy, table: KeyedTable): Promise<void> {
  const total = await countRows(from, table)
  let done = 0
  for await (const differences of compareTable(from, to, table)) {
    // First those that are gone: a name may have passed on to a newer row.
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
    if (total !== copied) throw new Refused(`${table.name} has ${total} rows here and ${copied} there`)
    let done = 0
    for await (const { compared, missing, surplus } of compareTable(from, to, table)) {
      if (missing.length + surplus.length > 0) throw new Refused(`rows of ${table.name} differ`)
      done += compared
      onProgress({ phase: 'verify', table: table.name, done, total })
    }
    if (!table.numbered) continue
    if ((await target.lastId(to, table.name)) < (await source.lastId(from, table.name)))
      throw new Refused(`ids of ${table.name} could be given out again`)
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
