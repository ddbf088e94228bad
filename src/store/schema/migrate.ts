import { type Kysely, sql, type TableMetadata, type Transaction } from 'kysely'
import { ExpectedError } from '../../util/expected-errors.ts'
import { type DialectSql, type Engine, PermissionDenied, type SchemaFunction } from '../engine.ts'
import { primaryKeys, type Tables } from '../tables.ts'
import { FIRST_BESIDE, FIRST_LOCKING, migrations } from './migrations.ts'

/** The database has a schema that this version or the role cannot use. The message says why, and what to do. */
export class UnknownSchema extends ExpectedError {
  override readonly name = 'UnknownSchema'
}

/**
 * Applies all pending migrations, and creates the functions that are missing. Where servers of an older
 * version may run beside this one, migrations that may take long are committed first, so that nobody
 * waits for their locks while those that lock tables wait. Any number of processes may call this at
 * once: one of them applies the migrations, while the others wait for it.
 *
 * @param apply false to throw UnknownSchema if one is pending
 * @returns whether the database was that of version 0.3.0 or earlier, whose servers must not run
 * beside those of this version
 * @throws UnknownSchema if a newer version has migrated the database, if it belongs to another
 * program, or if the role may not change the schema
 */
export async function migrate(engine: Engine, apply = true): Promise<boolean> {
  let isOfServersToStop = false
  let isDone = false
  const applyPending = async (db: Transaction<Tables>) => {
    const applied = await appliedMigrations(db)
    isOfServersToStop ||= applied.size > 0 && !applied.has(FIRST_BESIDE)
    const pending = Object.entries(migrations).filter(([name]) => !applied.has(name))
    const functions = await missingFunctions(db, engine.dialect)
    const [missing = functions[0]?.name] = pending.map(([name]) => name)
    isDone = missing === undefined
    if (missing === undefined) return
    const problem = `the schema is that of an older version (${missing} is missing)`
    if (!apply) {
      const after = pending.length > 0 ? '; older versions cannot use the database afterwards' : ''
      throw new UnknownSchema(`${problem}. Run "migrate", or start this version of the server${after}`)
    }
    try {
      const applyAll = async (some: typeof pending) => {
        for (const [name, statements] of some) await applyMigration(db, name, statements(engine.dialect))
      }
      const long = applied.has(FIRST_BESIDE) ? pending.filter(([name]) => name < FIRST_LOCKING) : []
      if (long.length > 0) return await applyAll(long)
      await engine.lockBriefly(db, () => applyAll(pending))
      for (const { sql: statement } of functions) await sql.raw(statement).execute(db)
      isDone = true
    } catch (error) {
      if (!(error instanceof PermissionDenied)) throw error
      const todo =
        'and only its owner can change it. Run "migrate" with the credentials of the owner, who needs CREATE on the schema'
      throw new UnknownSchema(`${problem}, ${todo}`, { cause: error })
    }
  }
  while (!isDone) await engine.exclusively(applyPending)
  return isOfServersToStop
}

async function applyMigration(
  db: Transaction<Tables>,
  name: string,
  statements: readonly string[],
): Promise<void> {
  await sql`create table if not exists schema_migrations (name text primary key, applied_at bigint not null)`.execute(
    db,
  )
  for (const statement of statements) await sql.raw(statement).execute(db)
  const applied_at = Math.floor(Date.now() / 1000)
  await db.insertInto('schema_migrations').values({ name, applied_at }).execute()
}

/** Returns the functions that the database does not have. */
async function missingFunctions(
  db: Kysely<Tables>,
  { functions }: DialectSql,
): Promise<readonly SchemaFunction[]> {
  if (functions.length === 0) return []
  const names = sql.join(functions.map(({ name }) => name))
  const { rows } = await sql<{ proname: string }>`select proname from pg_proc
    where proname in (${names}) and pg_function_is_visible(oid)`.execute(db)
  return functions.filter(({ name }) => !rows.some(({ proname }) => proname === name))
}

/**
 * Returns the names of the applied migrations; none if the database is empty.
 *
 * @throws UnknownSchema as `migrate`
 */
export async function appliedMigrations(db: Kysely<Tables>): Promise<Set<string>> {
  const tables = await tablesOf(db)
  const record = tables.find(({ name }) => name === 'schema_migrations')
  if (!record?.columns.some(({ name }) => name === 'name')) {
    const foreign = tables.filter(isInTheWay).map(({ name }) => name)
    if (foreign.length === 0) return new Set()
    throw new UnknownSchema(
      `the database belongs to another program: it contains ${foreign.slice(0, 5).join(', ')}. Use the server's database or an empty one`,
    )
  }
  const rows = await db.selectFrom('schema_migrations').select('name').orderBy('name').execute()
  const names = rows.map(({ name }) => name)
  const unknown = names.filter((name) => !Object.hasOwn(migrations, name))
  if (unknown.length === 0) return new Set(names)
  throw new UnknownSchema(
    `the database was migrated by a newer version (unknown: ${unknown.join(', ')}). ` +
      'Install that version again, or restore a backup from before the upgrade into an empty database',
  )
}

/**
 * Returns the tables of the current schema, in which unqualified names are found; on SQLite, of the
 * database.
 */
async function tablesOf(db: Kysely<Tables>): Promise<TableMetadata[]> {
  const tables = (await db.introspection.getTables()).filter(({ isView }) => !isView)
  if (!tables.some(({ schema }) => schema)) return tables
  const { rows } = await sql<{ name: string }>`select current_schema() as name`.execute(db)
  return tables.filter(({ schema }) => schema === rows[0]?.name)
}

/**
 * Returns whether another program's table prevents the use of the database. On PostgreSQL only one
 * with a name of ours does.
 */
function isInTheWay({ name, schema }: TableMetadata): boolean {
  return schema === undefined || Object.hasOwn(primaryKeys, name)
}
