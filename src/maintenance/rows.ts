import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Tables } from '../store/tables.ts'

export type Row = Record<string, string | number | null>
export type Key = (string | number | null)[]

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

/** Returns the rows after the key `after` in key order: at most `limit` rows, or those up to the key `last`. */
export async function readRows(
  db: Kysely<Tables>,
  { name, key }: KeyedTable,
  after: Key | null,
  end: { limit: number } | { last: Key | null },
): Promise<Row[]> {
  const columns = list(key.map((column) => sql.ref(column)))
  const conditions = [sql`true`]
  if (after) conditions.push(sql`(${columns}) > (${list(after)})`)
  if ('last' in end && end.last) conditions.push(sql`(${columns}) <= (${list(end.last)})`)
  const limit = 'limit' in end ? sql` limit ${end.limit}` : sql``
  const query = sql<Row>`select * from ${sql.table(name)} where ${sql.join(conditions, sql` and `)}
    order by ${columns}${limit}`
  return (await query.execute(db)).rows
}

/** Returns at most `limit` rows before the key `before`, or of the whole table, in reverse key order. */
export async function readRowsBackwards(
  db: Kysely<Tables>,
  { name, key }: KeyedTable,
  before: Key | null,
  limit: number,
): Promise<Row[]> {
  const columns = key.map((column) => sql.ref(column))
  const condition = before ? sql`(${list(columns)}) < (${list(before)})` : sql`true`
  const query = sql<Row>`select * from ${sql.table(name)} where ${condition}
    order by ${list(columns.map((column) => sql`${column} desc`))} limit ${limit}`
  return (await query.execute(db)).rows
}

/** Yields all rows of a table in batches, in key order. */
export async function* readBatches(
  db: Kysely<Tables>,
  table: KeyedTable,
  size: number,
): AsyncGenerator<Row[]> {
  for (let after: Key | null = null; ; ) {
    const rows: Row[] = await readRows(db, table, after, { limit: size })
    const last = rows.at(-1)
    if (!last) return
    yield rows
    after = keyOf(table, last)
  }
}

export async function countRows(db: Kysely<Tables>, { name }: KeyedTable): Promise<number> {
  const { rows } = await sql<{ rows: number }>`select count(*) as rows from ${sql.table(name)}`.execute(db)
  return rows[0]?.rows ?? 0
}

/** Inserts rows into PostgreSQL, or replaces those with the same key, with a single parameter for all rows. */
export async function upsertRows(
  db: Kysely<Tables>,
  { name, key }: KeyedTable,
  rows: readonly Row[],
): Promise<void> {
  const [first] = rows
  if (!first) return
  const names = Object.keys(first)
  const columns = list(names.map((column) => sql.ref(column)))
  const set = list(names.map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`))
  await sql`insert into ${sql.table(name)} (${columns})
    select ${columns} from json_populate_recordset(null::${sql.table(name)}, ${JSON.stringify(rows)}::json)
    on conflict (${list(key.map((column) => sql.ref(column)))}) do update set ${set}`.execute(db)
}

export async function deleteRow(db: Kysely<Tables>, { name, key }: KeyedTable, row: Row): Promise<void> {
  const match = key.map((column) => sql`${sql.ref(column)} = ${row[column]}`)
  await sql`delete from ${sql.table(name)} where ${sql.join(match, sql` and `)}`.execute(db)
}

export function keyOf({ key }: KeyedTable, row: Row): Key {
  return key.map((column) => row[column] ?? null)
}

function list(items: readonly unknown[]): RawBuilder<unknown> {
  return sql.join(items)
}
