import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { Test } from 'tap'
import { databaseFile, openStore, type Store, type StoreOptions } from '../../src/store/store.ts'

/** A kind of database that the server supports. */
export interface TestDatabase {
  name: 'SQLite' | 'PostgreSQL'
  /**
   * Returns the options that open a database with the schema and without rows. The teardown gives
   * it back.
   */
  create(t: Test): Promise<StoreOptions>
}

export const sqlite: TestDatabase = {
  name: 'SQLite',
  async create(t) {
    const dataDir = temporaryFolder(t)
    copyFileSync(await sqliteTemplate(), databaseFile(dataDir))
    return { dataDir }
  },
}

export const postgres: TestDatabase = {
  name: 'PostgreSQL',
  create: async (t) => ({
    dataDir: temporaryFolder(t),
    databaseUrl: await migratedDatabase(t),
    poolSize: 5,
  }),
}

/** Suites loop over these: the same tests must pass on each. */
export const databases = [sqlite, postgres]

/**
 * The same database without a limit of time for a statement, for tests that make so many calls at once that a
 * busy machine does not answer each within it.
 */
export function withoutLimit(database: TestDatabase): TestDatabase {
  return {
    ...database,
    create: async (t) => ({ ...(await database.create(t)), statementTimeout: false }),
  }
}

/** Opens a store on a new database. The teardown closes it. */
export async function openTestStore(
  t: Test,
  database: TestDatabase,
  more: Partial<StoreOptions> = {},
): Promise<{ store: Store; options: StoreOptions }> {
  const options = { ...(await database.create(t)), ...more }
  const store = await openStore(options)
  t.teardown(() => store.close())
  return { store, options }
}

let template: Promise<string> | undefined

/**
 * Returns the path of a SQLite database with the schema. Copying it takes less time than migrating
 * an empty one.
 */
function sqliteTemplate(): Promise<string> {
  template ??= createSqliteTemplate()
  return template
}

async function createSqliteTemplate(): Promise<string> {
  // The end of the run removes it.
  const dataDir = mkdtempSync(join(tmpdir(), 'template-'))
  await (await openStore({ dataDir })).close()
  return databaseFile(dataDir)
}

/** Creates a folder. The teardown removes it. */
export function temporaryFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'commit-status-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/**
 * Creates an empty database without a schema on the tests' PostgreSQL server. The teardown drops
 * it.
 *
 * @param options of `create database`
 */
export async function createPostgresDatabase(t: Test, options = ''): Promise<string> {
  const server = environment('TEST_DATABASE_URL')
  const name = `test_${randomBytes(8).toString('hex')}`
  await execute(server, `create database ${name} template template0 strategy file_copy ${options}`)
  t.teardown(() => execute(server, `drop database ${name} with (force)`))
  return databaseUrl(server, name)
}

/** A database with the schema. */
interface Migrated {
  url: string
  /** What `OBJECTS` found in it when it was created. */
  objects: unknown
}

/** Databases that earlier tests of this process no longer use. */
const unused: Migrated[] = []

/** Counts what tests may change besides rows. A database where they did is not used again. */
const OBJECTS = `select concat_ws(' ', (select count(*) from pg_class), (select count(*) from pg_proc),
  (select count(*) from pg_trigger), (select count(*) from pg_db_role_setting join pg_database on oid = setdatabase
    where datname = current_database()), (select count(*) from schema_migrations)) as objects`

/** Faster than to truncate the tables, which would replace all their files. */
const REMOVE_ROWS = [
  'set session_replication_role = replica',
  `do $$ declare one text; begin
    perform pg_terminate_backend(pid, 5000) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid();
    for one in select tablename from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations' loop
      execute format('delete from %I', one);
    end loop;
    perform setval(oid::regclass, 1, false) from pg_class where relkind = 'S';
  end $$`,
]

/**
 * Returns the URL of a database with the schema and without rows. The teardown makes it available
 * to the next test of the file, which takes a quarter of the time of creating one. The end of the
 * run drops it.
 */
async function migratedDatabase(t: Test): Promise<string> {
  const database = (await emptyUnused()) ?? (await copyTemplate())
  t.teardown(() => unused.push(database))
  return database.url
}

async function emptyUnused(): Promise<Migrated | undefined> {
  const database = unused.pop()
  const [found] = database ? await execute(database.url, ...REMOVE_ROWS, OBJECTS) : []
  return found?.objects === database?.objects ? database : undefined
}

async function copyTemplate(): Promise<Migrated> {
  const [server, template] = [environment('TEST_DATABASE_URL'), environment('TEST_DATABASE_TEMPLATE')]
  const name = `${template}_${randomBytes(6).toString('hex')}`
  // Copying its files takes half the time of writing them to the log.
  await execute(server, `create database ${name} template ${template} strategy file_copy`)
  const url = databaseUrl(server, name)
  const [found] = await execute(url, OBJECTS)
  return { url, objects: found?.objects }
}

/** Runs statements one by one and returns the rows of the last. */
export async function execute(url: string, ...statements: string[]): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    let rows: Record<string, unknown>[] = []
    for (const statement of statements) ({ rows } = await client.query(statement))
    return rows
  } finally {
    await client.end()
  }
}

/** Returns the URL of another database on the same server. */
export function databaseUrl(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = name
  return url.href
}

function environment(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: run the tests by "npm test" or "node test/run.ts FILE"`)
  return value
}
