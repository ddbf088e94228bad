import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Kysely } from 'kysely'
import { renameDurably } from '../../util/durable.ts'
import { countRows, keyedTables, readBatches } from '../copy/rows.ts'
import type { Engine } from '../engine.ts'
import { appliedMigrations } from '../migrations.ts'
import type { Tables } from '../tables.ts'
import { formatTime, nowInSeconds } from '../time.ts'
import { draftOf, removeAbandonedDrafts } from './draft.ts'
import { type BackupEnd, type BackupHeader, type BackupRows, FORMAT, VERSION } from './format.ts'

/** Told how many rows of a table are done; while a backup is read it is not known of how many. */
export type OnRows = (table: string, done: number, total?: number) => void

/** Rows read at a time, and held by one line. */
const BATCH = 500

/** Who is signed in and who failed to is of the moment: people sign in again, and budgets begin anew. */
const PASSING = ['sessions', 'auth_failures']

/** What a backup holds, those referred to before those that refer. */
export const lastingTables = keyedTables.filter(({ name }) => !PASSING.includes(name))

/**
 * Writes all that lasts to a file, as it is at one moment, while others go on reading and writing. The file appears
 * under its name when it is complete and on disk, in place of an earlier one; nobody else may read it. What a killed
 * backup to the same file has left behind is removed.
 *
 * @throws the system's error when the file cannot be written; StoreUnavailable
 */
export async function writeBackup(engine: Engine, file: string, onRows: OnRows): Promise<void> {
  await removeAbandonedDrafts(file)
  const draft = draftOf(file)
  try {
    await engine.kysely
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute((db) =>
        pipeline(
          Readable.from(linesOf(engine, db, onRows)),
          createGzip(),
          createWriteStream(draft, { flags: 'wx', mode: 0o600, flush: true }),
        ),
      )
    await renameDurably(draft, file)
  } finally {
    await rm(draft, { force: true })
  }
}

async function* linesOf(engine: Engine, db: Kysely<Tables>, onRows: OnRows): AsyncGenerator<string> {
  const hash = createHash('sha256')
  const line = (part: BackupHeader | BackupRows) => {
    const text = `${JSON.stringify(part)}\n`
    hash.update(text)
    return text
  }
  yield line({
    format: FORMAT,
    version: VERSION,
    created_at: formatTime(nowInSeconds()),
    migrations: [...(await appliedMigrations(db))],
  })
  const end: BackupEnd = { counts: {}, last_ids: {}, sha256: '' }
  for (const table of lastingTables) {
    const total = await countRows(db, table)
    let done = 0
    for await (const rows of readBatches(db, table, BATCH)) {
      const columns = Object.keys(rows[0] ?? {})
      const values = rows.map((row) => columns.map((name) => row[name] ?? null))
      yield line({ table: table.name, columns, rows: values })
      done += rows.length
      onRows(table.name, done, total)
    }
    end.counts[table.name] = done
    if (table.numbered) end.last_ids[table.name] = await engine.lastId(db, table.name)
  }
  yield `${JSON.stringify({ ...end, sha256: hash.digest('hex') })}\n`
}
