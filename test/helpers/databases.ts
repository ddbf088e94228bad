import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { Test } from 'tap'
import { openStore, type Store, type StoreOptions } from '../../src/store/store.ts'

/** A kind of database that the server supports. */
export interface TestDatabase {
  name: 'SQLite' | 'PostgreSQL'
  /** Creates a database, with or without the schema, and returns the options that open it. The teardown removes it. */
  create(t: Test): Promise<StoreOptions>
}

export const sqlite: TestDatabase = {
  name: 'SQLite',
  create: async (t) => ({ dataDir: temporaryFolder(t) }),
}

export const postgres: TestDatabase = {
  name: 'PostgreSQL',
  create: async (t) => ({
    dataDir: temporaryFolder(t),
    databaseUrl: await createPostgresDatabase(t, `template ${environment('TEST_DATABASE_TEMPLATE')}`),
    poolSize: 5,
  }),
}

/** Suites loop over these: the same tests must pass on each. */
export const databases = [sqlite, postgres]

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

/** Creates a folder. The teardown removes it. */
export function temporaryFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'commit-status-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/**
 * Creates a database on the tests' PostgreSQL server; empty by default. The teardown drops it. Copying its files takes half
 * the time of writing them to the log.
 */
export async function createPostgresDatabase(t: Test, template = 'template template0'): Promise<string> {
  const server = environment('TEST_DATABASE_URL')
  const name = `test_${randomBytes(8).toString('hex')}`
  await execute(server, `create database ${name} ${template} strategy file_copy`)
  t.teardown(() => execute(server, `drop database ${name} with (force)`))
  return databaseUrl(server, name)
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
