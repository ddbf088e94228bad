import { type Kysely, sql } from 'kysely'
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

/**
 * Returns one sentence for each missing row that others refer to.
 *
 * @param remove whether to remove the rows that refer to it, or only the reference where the row is of use without it
 */
export async function findOrphans(db: Kysely<Tables>, remove = false): Promise<string[]> {
  const found: string[] = []
  for (const { table, column, parents, clears = false } of REFERENCES) {
    const [children, reference] = [sql.table(table), sql.ref(column)]
    // Without the first condition, null would not be in an empty table.
    const isOrphaned = sql`${reference} is not null and ${reference} not in (select id from ${sql.table(parents)})`
    const { rows: orphans } = await sql<{ parent: number; rows: number }>`
      select ${reference} as parent, count(*) as rows from ${children}
      where ${isOrphaned} group by ${reference} order by ${reference}`.execute(db)
    for (const { parent, rows } of orphans) {
      const text = `${table}: ${column} ${parent} does not exist in ${parents} (rows: ${rows})`
      found.push(remove && clears ? `${text} (reference cleared, rows kept)` : text)
    }
    if (!remove || orphans.length === 0) continue
    const removal = clears ? sql`update ${children} set ${reference} = null` : sql`delete from ${children}`
    await sql`${removal} where ${isOrphaned}`.execute(db)
  }
  return found
}
