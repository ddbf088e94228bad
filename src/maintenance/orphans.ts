import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Engine } from '../store/engine.ts'
import type { Tables } from '../store/tables.ts'

/**
 * References: the column of each table, and the table that it refers to. An orphaned row is useless, except where
 * only the reference is lost: `clears`.
 */
const REFERENCES: readonly Reference[] = [
  { table: 'collaborators', column: 'repository_id', parents: 'repositories' },
  { table: 'collaborators', column: 'user_id', parents: 'users' },
  { table: 'tokens', column: 'user_id', parents: 'users' },
  { table: 'sessions', column: 'user_id', parents: 'users' },
  { table: 'branch_rules', column: 'repository_id', parents: 'repositories' },
  { table: 'branch_rule_bypasses', column: 'rule_id', parents: 'branch_rules' },
  { table: 'branch_rule_bypasses', column: 'user_id', parents: 'users' },
  { table: 'statuses', column: 'repository_id', parents: 'repositories' },
  { table: 'tokens', column: 'reporter_id', parents: 'reporters', clears: true },
  { table: 'statuses', column: 'reporter_id', parents: 'reporters', clears: true },
]

interface Reference {
  table: keyof Tables
  column: string
  parents: keyof Tables
  clears?: boolean
}

/** Returns one sentence for each missing row that others refer to. */
export async function findOrphans({ kysely }: Engine): Promise<string[]> {
  const found: string[] = []
  for (const reference of REFERENCES) found.push(...(await orphansOf(kysely, reference)))
  return found
}

/**
 * Removes rows that refer to a missing row, or only the reference where the row is of use without it.
 *
 * @returns one sentence for each problem that this solved
 */
export async function removeOrphans({ kysely }: Engine): Promise<string[]> {
  return kysely.transaction().execute(async (db) => {
    const found: string[] = []
    for (const reference of REFERENCES) {
      const orphans = await orphansOf(db, reference)
      if (orphans.length === 0) continue
      const { table, column, clears = false } = reference
      const remove = clears
        ? sql`update ${sql.table(table)} set ${sql.ref(column)} = null`
        : sql`delete from ${sql.table(table)}`
      await sql`${remove} where ${isOrphaned(reference)}`.execute(db)
      found.push(...orphans.map((text) => (clears ? `${text} (reference cleared, rows kept)` : text)))
    }
    return found
  })
}

function isOrphaned({ column, parents }: Reference): RawBuilder<boolean> {
  // Without the first condition, null would not be in an empty table.
  return sql`${sql.ref(column)} is not null and ${sql.ref(column)} not in (select id from ${sql.table(parents)})`
}

async function orphansOf(db: Kysely<Tables>, reference: Reference): Promise<string[]> {
  const { table, column, parents } = reference
  const { rows } = await sql<{ parent: number; rows: number }>`
    select ${sql.ref(column)} as parent, count(*) as rows from ${sql.table(table)}
    where ${isOrphaned(reference)}
    group by ${sql.ref(column)} order by ${sql.ref(column)}`.execute(db)
  return rows.map(
    ({ parent, rows }) => `${table}: ${column} ${parent} does not exist in ${parents} (rows: ${rows})`,
  )
}
