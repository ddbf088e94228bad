import { type Kysely, sql } from 'kysely'
import type { Tables } from '../store/tables.ts'

export type Row = Record<string, string | number | null>

/** Receives the number of rows of a table that are done, and their total if it is known. */
export type OnRows = (table: string, done: number, total?: number) => void

/** A table and its primary key, by which its rows are read in batches. */
export interface KeyedTable {
  name: string
  key: readonly string[]
  /** The database assigns ids to its rows and must never reuse one. */
  numbered: boolean
}

/** Every table except that of the migrations. Does not compile if one is missing. */
const tables = {
  users: ['id'],
  repositories: ['id'],
  collaborators: ['repository_id', 'user_id'],
  reporters: ['id'],
  tokens: ['id'],
  sessions: ['hash'],
  auth_failures: ['address'],
  audit_events: ['id'],
  branch_rules: ['id'],
  branch_rule_bypasses: ['rule_id', 'user_id'],
  statuses: ['repository_id', 'sha', 'context'],
} as const satisfies {
  [Table in Exclude<keyof Tables, 'schema_migrations'>]: readonly (keyof Tables[Table])[]
}

/** In an order in which a table comes after those that its foreign keys refer to. */
export const keyedTables: readonly KeyedTable[] = Object.entries(tables).map(([name, key]) => ({
  name,
  key,
  numbered: key[0] === 'id' && name !== 'tokens',
}))

/** Yields all rows of a table in batches, in key order. */
export async function* readBatches(
  db: Kysely<Tables>,
  { name, key }: KeyedTable,
  size: number,
): AsyncGenerator<Row[]> {
  const columns = sql.join(key.map((column) => sql.ref(column)))
  for (let after = sql`true`; ; ) {
    const { rows }: { rows: Row[] } = await sql<Row>`select * from ${sql.table(name)}
      where ${after} order by ${columns} limit ${size}`.execute(db)
    const last = rows.at(-1)
    if (!last) return
    yield rows
    after = sql`(${columns}) > (${sql.join(key.map((column) => last[column]))})`
  }
}

export async function countRows(db: Kysely<Tables>, { name }: KeyedTable): Promise<number> {
  const { rows } = await sql<{ rows: number }>`select count(*) as rows from ${sql.table(name)}`.execute(db)
  return rows[0]?.rows ?? 0
}
