import Sqlite, { type Database } from 'better-sqlite3'
import type { Test } from 'tap'
import { execute, type TestDatabase } from './databases.ts'

/**
 * A database whose clock the test controls, on every connection opened after this one was created.
 */
export interface ClockDatabase {
  database: TestDatabase
  /** Sets the offset from the real clock, in seconds. May be negative. */
  set(seconds: number): Promise<void>
}

/** Replaces SQLite's `unixepoch` by a function of the same name. */
export function sqliteWithClock(t: Test, database: TestDatabase): ClockDatabase {
  let ahead = 0
  const patched = new WeakSet<Database>()
  const { prepare } = Sqlite.prototype
  t.capture(Sqlite.prototype, 'prepare', function (this: Database, text: string) {
    if (!patched.has(this)) {
      patched.add(this)
      this.function('unixepoch', { varargs: true }, () => Date.now() / 1000 + ahead)
    }
    return prepare.call(this, text)
  })
  return {
    database,
    async set(seconds) {
      ahead = seconds
    },
  }
}

/**
 * Shadows PostgreSQL's time functions by functions in a schema that comes first in the search path.
 */
export function postgresWithClock(database: TestDatabase): ClockDatabase {
  let url = ''
  return {
    database: {
      ...database,
      async create(t) {
        const options = await database.create(t)
        url = options.databaseUrl ?? ''
        const names = ['statement_timestamp', 'clock_timestamp']
        await execute(
          url,
          'create schema fake',
          'create table fake.clock (ahead interval not null)',
          `insert into fake.clock values ('0')`,
          ...names.map(
            (name) => `create function fake.${name}() returns timestamptz language sql stable as
              'select pg_catalog.${name}() + ahead from fake.clock'`,
          ),
          `alter database "${new URL(url).pathname.slice(1)}" set search_path = fake, pg_catalog, public`,
        )
        return options
      },
    },
    async set(seconds) {
      await execute(url, `update fake.clock set ahead = '${seconds} seconds'`)
    },
  }
}
