import { type Kysely, sql } from 'kysely'
import { primaryKeys, type Tables } from '../tables.ts'

/** Rights on a table that the server uses. */
const USED = ['select', 'insert', 'update', 'delete']
/**
 * Tables that need fewer of them: only `prune` and `check --prune` change an event, and only
 * `audit prune` removes any.
 */
const FEWER: Partial<Record<keyof Tables, string[]>> = {
  audit_events: ['select', 'insert'],
  schema_migrations: ['select', 'update'],
}

/**
 * Returns the right without which the role of a connection cannot use the database, with the
 * statement that grants it; null if it has all of them. The right to change an existing schema is
 * none of them: its owner may do that.
 */
export async function findMissingRight(db: Kysely<Tables>): Promise<string | null> {
  const { rows } = await sql<{ role: string; schema: string | null; path: string; creates: boolean | null }>`
    select quote_ident(current_user) as role, quote_ident(current_schema()) as schema,
      current_setting('search_path') as path, has_schema_privilege(current_schema(), 'create') as creates`.execute(
    db,
  )
  const [found] = rows
  if (!found) throw new Error('PostgreSQL does not name the role')
  const { role, schema, path, creates } = found
  if (schema === null)
    return `no schema has been selected: the role ${role} may use none of its search_path (${path}), or there is none. Run: grant usage on schema NAME to ${role}`

  const tables = await sql<{ name: keyof Tables; rights: string[]; readsSequences: boolean }>`
    select relname as name, array(select privilege from unnest(array[${sql.join(USED)}]) as privilege
      where has_table_privilege(pg_class.oid, privilege)) as rights,
      not exists (select from pg_depend join pg_class as other on other.oid = objid
        where classid = 'pg_class'::regclass and refclassid = 'pg_class'::regclass and refobjid = pg_class.oid
        and case when other.relkind = 'S' then not has_sequence_privilege(objid, 'usage, select') end) as "readsSequences"
    from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where nspname = current_schema() and relkind in ('r', 'p') and relname in (${sql.join(Object.keys(primaryKeys))})
    order by relname`.execute(db)
  if (tables.rows.length === 0)
    return creates
      ? null
      : `the role ${role} may not create tables. Run: grant create on schema ${schema} to ${role}`
  const closed = tables.rows.filter(({ name, rights }) =>
    (FEWER[name] ?? USED).some((right) => !rights.includes(right)),
  )
  const list = (some: typeof closed) => some.map(({ name }) => name).join(', ')
  if (closed.length > 0)
    return `the role ${role} may not read and write all rows of ${list(closed)}. Run as their owner: grant ${USED.join(', ')} on all tables in schema ${schema} to ${role}`
  // Of others, PostgreSQL 18 says that they have assigned nothing. Only a restore sets them, by UPDATE.
  const unreadable = tables.rows.filter(({ readsSequences }) => !readsSequences)
  return unreadable.length === 0
    ? null
    : `the role ${role} may not read the sequences of ${list(unreadable)}, which a backup contains. Run as their owner: grant select, update on all sequences in schema ${schema} to ${role}`
}
