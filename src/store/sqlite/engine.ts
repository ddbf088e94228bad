import { dirname } from 'node:path'
import { getSystemErrorMessage } from 'node:util'
import Sqlite from 'better-sqlite3'
import { Kysely, sql } from 'kysely'
import { createFolder } from '../../util/durable.ts'
import { isSystemError } from '../../util/expected-errors.ts'
import { type DialectSql, type Engine, StoreUnavailable } from '../engine.ts'
import type { Tables } from '../tables.ts'
import { checkOutsideTransaction, runInTransaction } from '../transaction-context.ts'
import { Connection } from './connection.ts'
import { DatabaseFiles } from './database-files.ts'
import { retryingSqliteDialect } from './dialect.ts'
import { retryWhileBusy, translateError } from './driver-errors.ts'
import { reporting } from './reporting.ts'
import { Turn } from './turn.ts'

/** SQLite evaluates it once for each statement, and a statement that runs waits for no lock. */
const NOW = `cast(unixepoch('subsec') * 1000 as integer)`

const dialect: DialectSql = {
  serial: 'integer primary key autoincrement',
  integer: 'integer',
  text: 'text',
  clustered: ' without rowid',
  serialWrites: true,
  greatest: 'max',
  least: 'min',
  now: NOW,
  clock: NOW,
  snapshot: `''`,
  isOneOf: (texts) => sql`in (select value from json_each(${texts}))`,
  elements: (texts) => sql`(select key as position, value from json_each(${texts}))`,
  fieldOf: (json, name) => `${json} ->> '${name}'`,
  functions: [],
  reporting: (kysely, maxContexts) => reporting(dialect, kysely, maxContexts),
}

/** Maximum number of findings of an integrity check. */
const MAX_FINDINGS = 10_000
/**
 * Counts rows that refer to a missing one. Only a program that does not enforce foreign keys leaves
 * some.
 */
const DANGLING_ROWS = `select format('%s: rows that refer to missing %s: %d', "table", parent, count(*))
  from pragma_foreign_key_check group by "table", parent`

/**
 * Opens a SQLite database. Creates it and its folder if they do not exist.
 *
 * Two connections, each with its reason:
 *
 * - `hot` reads through the cache and commits in groups (turn.ts).
 * - `cold` is Kysely's. Its transactions last over several event-loop turns, and a group commit on
 *   the same connection would become part of them. Its commits change `data_version` of `hot`,
 *   which clears the cache: a revoked token is not found there again. On `hot` they would not.
 *
 * @param pageCache of each, in KiB
 * @throws StoreUnavailable when the file cannot be opened or would not be written durably
 */
export async function openSqlite(file: string, pageCache?: number): Promise<Engine> {
  // The folder also contains private repositories.
  await createFolder(dirname(file), 0o700).catch((error: unknown) => {
    throw folderUnavailable(error)
  })
  const hot = await retryWhileBusy(() => new Connection(file, pageCache))
  const cold = await retryWhileBusy(() => new Connection(file, pageCache))
  const files = new DatabaseFiles(file, () => hot.raw.pragma('wal_checkpoint(FULL)'))
  const turn = new Turn(hot, files)
  const kysely = new Kysely<Tables>({
    dialect: retryingSqliteDialect(cold, () => {
      turn.requireValidation()
      files.check()
    }),
  })

  async function lastId(db: Kysely<Tables>, table: string): Promise<number> {
    const { rows } = await sql<{
      id: number
    }>`select seq as id from sqlite_sequence where name = ${table}`.execute(db)
    return rows[0]?.id ?? 0
  }

  return {
    dialect,
    remote: false,
    kysely,
    read(query, params, cache) {
      checkOutsideTransaction()
      if (cache) return turn.read(query, params, cache)
      return retryWhileBusy(() => hot.all(query, params)).finally(() => files.checkNowAndThen())
    },
    write(query, params, ...invalidates) {
      checkOutsideTransaction()
      return turn.write(query, params, ...invalidates)
    },
    async probe() {
      checkOutsideTransaction()
      // Writes the first page even if the value does not change. Invalidates no key.
      await turn.write({ name: 'probe', sql: 'pragma user_version = 1', bind: () => [] }, {}, 'probe')
    },
    // A transaction that writes waits for no reader.
    lockBriefly: (_db, work) => work(),
    exclusively: (work) => kysely.transaction().execute((db) => runInTransaction(() => work(db))),
    lastId,
    async setLastId(db, table, id) {
      if (id <= (await lastId(db, table))) return
      await sql`delete from sqlite_sequence where name = ${table}`.execute(db)
      await sql`insert into sqlite_sequence (name, seq) values (${table}, ${id})`.execute(db)
    },
    async checkFiles() {
      const findings: string[] = []
      try {
        const rows = cold.raw
          .prepare<unknown[], string>(`pragma integrity_check(${MAX_FINDINGS})`)
          .pluck()
          .iterate()
        for (const text of rows)
          findings.push(...text.split('\n').filter((line) => !/^(ok$|\*\*\*)/.test(line)))
        if (findings.length === 0)
          findings.push(...cold.raw.prepare<unknown[], string>(DANGLING_ROWS).pluck().all())
      } catch (error) {
        // Keeps what was found before the page that stopped it.
        const reason = translateError(error)
        findings.push(`the integrity check ended early: ${reason instanceof Error ? reason.message : reason}`)
      }
      return findings
    },
    async completeFile() {
      await retryWhileBusy(() => {
        // SQLite returns this as a value, also if another process is only reading.
        const isBusy = cold.raw.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) !== 0
        if (isBusy) throw new Sqlite.SqliteError('the checkpoint is incomplete', 'SQLITE_BUSY')
      })
    },
    async close() {
      await turn.idle()
      hot.close()
      await kysely.destroy()
      // Kysely closes only what it has used.
      if (cold.raw.open) cold.close()
    },
  }
}

/** Returns the error for a folder that could not be created; other errors as they are. */
function folderUnavailable(error: unknown): unknown {
  if (!isSystemError(error)) return error
  const { code, errno, path, message } = error
  const reason = errno === undefined ? message : getSystemErrorMessage(errno)
  return new StoreUnavailable(
    code === 'EEXIST' ? `${path} is not a folder` : `the folder ${path} cannot be created: ${reason}`,
    { cause: error },
  )
}
