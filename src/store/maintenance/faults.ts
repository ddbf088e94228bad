import { type Kysely, sql } from 'kysely'
import { schemas } from '../../../generated/schemas.ts'
import { countRows, keyedTables, type Row, readBatches } from '../copy/rows.ts'
import type { Engine } from '../engine.ts'
import type { Tables } from '../tables.ts'

/** Rows read at a time. */
const BATCH = 1_000

/** Rows that refer to others: by which column, to which table. The database sees to it that these are there. */
const REFERENCES = [
  { table: 'collaborators', column: 'repository_id', parents: 'repositories' },
  { table: 'collaborators', column: 'user_id', parents: 'users' },
  { table: 'tokens', column: 'user_id', parents: 'users' },
  { table: 'sessions', column: 'user_id', parents: 'users' },
  { table: 'statuses', column: 'repository_id', parents: 'repositories' },
] as const

const STATES = new Set<unknown>(schemas.State.enum)
const ID_LENGTHS: Record<string, number> = { sha1: 40, sha256: 64 }

/**
 * Reads every row, all as they are at one moment, and says what is wrong: with the database's files, with rows that refer
 * to one that is not there, with statuses that break the rules. One sentence for each.
 */
export async function findFaults(
  engine: Engine,
  onRows: (table: string, done: number, total: number) => void,
): Promise<string[]> {
  const faults = (await engine.checkFiles?.()) ?? []
  await engine.kysely
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (db) => {
      for (const reference of REFERENCES) faults.push(...(await findOrphans(db, reference)))
      const check = await statusCheck(db)
      for (const table of keyedTables) {
        const total = await countRows(db, table)
        let done = 0
        for await (const rows of readBatches(db, table, BATCH)) {
          if (table.name === 'statuses') faults.push(...rows.flatMap(check))
          done += rows.length
          onRows(table.name, done, total)
        }
      }
    })
  return faults
}

/** Removes the rows that refer to one that is not there. @returns what was wrong, a sentence for each */
export async function removeOrphans({ kysely }: Engine): Promise<string[]> {
  return kysely.transaction().execute(async (db) => {
    const found: string[] = []
    for (const reference of REFERENCES) {
      const orphans = await findOrphans(db, reference)
      if (orphans.length === 0) continue
      const { table, column, parents } = reference
      await sql`delete from ${sql.table(table)}
        where ${sql.ref(column)} not in (select id from ${sql.table(parents)})`.execute(db)
      found.push(...orphans)
    }
    return found
  })
}

async function findOrphans(
  db: Kysely<Tables>,
  { table, column, parents }: (typeof REFERENCES)[number],
): Promise<string[]> {
  const { rows } = await sql<{ parent: number; rows: number }>`
    select ${sql.ref(column)} as parent, count(*) as rows from ${sql.table(table)}
    where ${sql.ref(column)} not in (select id from ${sql.table(parents)})
    group by ${sql.ref(column)} order by ${sql.ref(column)}`.execute(db)
  return rows.map(
    ({ parent, rows }) => `${table}: ${rows} rows with the ${column} ${parent}, which is not in ${parents}`,
  )
}

/** What is wrong with a status, by the rules of what can be reported (contract, part 2). */
async function statusCheck(db: Kysely<Tables>): Promise<(row: Row) => string[]> {
  const formats = await db.selectFrom('repositories').select(['id', 'object_format']).execute()
  const lengths = new Map<unknown, number | undefined>(
    formats.map(({ id, object_format }) => [id, ID_LENGTHS[object_format]]),
  )
  return (row) => {
    const { repository_id, sha, context, state, created_at, updated_at } = row
    const length = lengths.get(repository_id)
    const wrong: string[] = []
    if (!/^[0-9a-f]+$/.test(String(sha)) || (length !== undefined && String(sha).length !== length))
      wrong.push('its sha is no full commit id')
    if (!STATES.has(state)) wrong.push(`its state is "${state}"`)
    if (context === '') wrong.push('its context is empty')
    if (Number(created_at) > Number(updated_at)) wrong.push('it was updated before it was created')
    return wrong.map((what) => `status ${JSON.stringify([repository_id, sha, context])}: ${what}`)
  }
}
