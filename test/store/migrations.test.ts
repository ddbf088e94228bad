import { type ChildProcess, spawn } from 'node:child_process'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import Sqlite from 'better-sqlite3'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { openStore, type StoreOptions } from '../../src/store/store.ts'
import { primaryKeys } from '../../src/store/tables.ts'
import {
  createPostgresDatabase,
  databases,
  execute,
  openTestStore,
  sqlite,
  temporaryFolder,
} from '../helpers/databases.ts'

const empty = [
  { name: 'SQLite', create: async (t: Test): Promise<StoreOptions> => ({ dataDir: temporaryFolder(t) }) },
  {
    name: 'PostgreSQL',
    create: async (t: Test): Promise<StoreOptions> => ({
      dataDir: temporaryFolder(t),
      databaseUrl: await createPostgresDatabase(t),
    }),
  },
]

interface Opener {
  child: ChildProcess
  /** Returns the next line of its output. */
  line(): Promise<string>
  open(options: StoreOptions, work?: 'half-way'): void
}

/** Starts a process that is ready to open a database. */
async function startOpener(t: Test): Promise<Opener> {
  const child = spawn(process.execPath, [resolve(import.meta.dirname, 'fixtures/open.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const line = async () => String((await lines.next()).value)
  t.equal(await line(), 'ready')
  return { child, line, open: (options, work) => child.stdin.write(`${JSON.stringify({ options, work })}\n`) }
}

test('tables are read by their primary keys', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  for (const [table, { key }] of Object.entries(primaryKeys)) {
    const columns = sql<{
      name: string
    }>`select name from pragma_table_info(${table}) where pk > 0 order by pk`
    const { rows } = await columns.execute(store.engine.kysely)
    t.same(
      rows.map(({ name }) => name),
      key,
      table,
    )
  }
})

test('migrations', async (t) => {
  const openers = await Promise.all(Array.from({ length: 10 }, () => startOpener(t)))

  for (const database of empty) {
    t.test(`ten processes open an empty ${database.name} database at once`, async (t) => {
      const options = await database.create(t)
      for (const opener of openers) opener.open(options)
      for (const opener of openers) t.equal(await opener.line(), '{"users":[]}')
      const store = await openStore({ ...options, migrate: false })
      t.teardown(() => store.close())
      t.same(await store.users.list(), [], 'no pending migrations')
    })
  }

  for (const database of empty) {
    t.test(`a killed migration of ${database.name} leaves nothing behind`, async (t) => {
      const options = await database.create(t)
      const [killed, waiting] = [openers.pop(), openers.pop()]
      killed?.open(options, 'half-way')
      t.equal(await killed?.line(), 'half-way')
      waiting?.open(options)
      killed?.child.kill('SIGKILL')
      t.equal(await waiting?.line(), '{"users":[]}')
    })
  }
})

for (const database of databases) {
  test(`${database.name}: refuses a database that a newer version has migrated`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    await store.engine.kysely
      .insertInto('schema_migrations')
      .values([
        { name: '999-later', applied_at: 0 },
        { name: '998-late', applied_at: 0 },
      ])
      .execute()
    await t.rejects(openStore(options), {
      name: 'UnknownSchema',
      message:
        /^\S+: the database was migrated by a newer version \(unknown: 998-late, 999-later\)\. Install /,
    })
  })
}

test('refuses a database of another program', async (t) => {
  const rails = 'create table schema_migrations (version text primary key)'
  const users = 'create table users (email text)'
  const books = 'create table books (title text)'
  for (const [statement, table] of [
    [rails, 'schema_migrations'],
    [users, 'users'],
    [books, 'books'],
  ] as const) {
    const dataDir = temporaryFolder(t)
    const other = new Sqlite(join(dataDir, 'commit-status.db'))
    other.exec(statement)
    other.close()
    const message = new RegExp(`: the database belongs to another program: it contains ${table}\\. `)
    await t.rejects(openStore({ dataDir }), { name: 'UnknownSchema', message }, `SQLite: ${table}`)

    const databaseUrl = await createPostgresDatabase(t)
    await execute(databaseUrl, statement, 'create schema other', 'create table other.tokens (id text)')
    const opened = openStore({ dataDir, databaseUrl, poolSize: 1 })
    if (statement === books) await (await opened).close()
    else await t.rejects(opened, { name: 'UnknownSchema', message }, `PostgreSQL: ${table}`)
  }
})
