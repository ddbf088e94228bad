import { dirname } from 'node:path'
import { Kysely, sql } from 'kysely'
import { createFolder } from '../../util/durable.ts'
import type { DialectSql, Engine } from '../engine.ts'
import type { Prepared } from '../prepared.ts'
import type { Tables } from '../tables.ts'
import { CapacityCounter } from './capacity-counter.ts'
import { Connection } from './connection.ts'
import { DatabaseFiles } from './database-files.ts'
import { RetryingSqliteDialect } from './dialect.ts'
import { retryWhileBusy, translateError } from './driver-errors.ts'
import { GroupCommit } from './group-commit.ts'
import { ReadCache } from './read-cache.ts'
import { SlicedReads } from './sliced-reads.ts'

/** SQLite evaluates it once for each statement, and a statement that runs waits for no lock. */
const NOW = `cast(unixepoch('subsec') * 1000 as integer)`

const dialect: DialectSql = {
  serial: 'integer primary key autoincrement',
  integer: 'integer',
  text: 'text',
  clustered: ' without rowid',
  greatest: 'max',
  now: NOW,
  clock: NOW,
}

/** What an integrity check finds before it gives up. */
const MOST_FAULTS = 10_000

/**
 * Opens a SQLite database, which is created with its folder where it is missing.
 *
 * Two connections: grouped writes must never fall into a transaction that Kysely has open. Reads of many rows open a third.
 *
 * @throws StoreUnavailable when the file cannot be opened or would not be written durably
 */
export async function openSqlite(file: string): Promise<Engine> {
  // Private repositories lie beside it.
  await createFolder(dirname(file), 0o700)
  const hot = await retryWhileBusy(() => new Connection(file))
  const cold = await retryWhileBusy(() => new Connection(file))
  const files = new DatabaseFiles(file, () => hot.raw.pragma('wal_checkpoint(FULL)'))
  const rooms = new CapacityCounter(hot)
  const writes = new GroupCommit(hot, {
    onBegin: () => rooms.begin(),
    onUndone: () => rooms.forget(),
    onWrite: (key) => reads.touched(key),
    check: () => files.check(),
  })
  const reads = new ReadCache(hot, {
    // Requests that came together read together and mostly write at once: waiting longer would only split them up.
    onRead: () => writes.flush(),
    check: () => files.checkNowAndThen(),
  })
  const sliced = new SlicedReads(file, () => files.check())
  const kysely = new Kysely<Tables>({ dialect: new RetryingSqliteDialect(cold, () => files.check()) })

  /** The statement decides what a row is; `prepare` derived the type from the same query. */
  function rows<Row>(query: Prepared<never, Row>, found: unknown[]): Row[]
  function rows(_query: Prepared<never, unknown>, found: unknown[]): unknown[] {
    return found
  }

  async function lastId(db: Kysely<Tables>, table: string): Promise<number> {
    const { rows } = await sql<{
      id: number
    }>`select seq as id from sqlite_sequence where name = ${table}`.execute(db)
    return rows[0]?.id ?? 0
  }

  return {
    dialect,
    kysely,
    read(query, params, memory) {
      const read = () => rows(query, hot.prepare(query.sql).all(...query.bind(params)))
      return memory ? reads.read(read, memory) : retryWhileBusy(read).finally(() => files.checkNowAndThen())
    },
    readMany(query, params, memory, admit) {
      const read = async () => rows(query, await sliced.read(query.sql, query.bind(params)))
      return reads.readMany(read, memory, admit)
    },
    async write(query, params, touched) {
      return rows(query, await writes.write((run) => run(query.sql, query.bind(params)), touched))
    },
    async writeLimited(write, params, group) {
      const written = await writes.write((run) => rooms.write(run, write, params, group), group)
      return rows(write.upsert, written)[0] ?? null
    },
    async probe() {
      // Writes the first page, whatever the number was before.
      await writes.write((run) => run('pragma user_version = 1', []), 'nothing')
    },
    exclusively: (work) => kysely.transaction().execute(work),
    lastId,
    async setLastId(db, table, id) {
      if (id <= (await lastId(db, table))) return
      await sql`delete from sqlite_sequence where name = ${table}`.execute(db)
      await sql`insert into sqlite_sequence (name, seq) values (${table}, ${id})`.execute(db)
    },
    async checkFiles() {
      const faults: string[] = []
      try {
        const rows = cold.raw
          .prepare<unknown[], string>(`pragma integrity_check(${MOST_FAULTS})`)
          .pluck()
          .iterate()
        for (const text of rows)
          faults.push(...text.split('\n').filter((line) => !/^(ok$|\*\*\*)/.test(line)))
      } catch (error) {
        // What it found before it came to a page that it could not go beyond.
        const fault = translateError(error)
        faults.push(`the integrity check ended early: ${fault instanceof Error ? fault.message : fault}`)
      }
      return faults
    },
    async close() {
      await writes.idle()
      await sliced.close()
      hot.close()
      await kysely.destroy()
      // Kysely closes only what it has used.
      if (cold.raw.open) cold.close()
    },
  }
}
