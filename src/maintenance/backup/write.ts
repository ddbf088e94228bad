import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { deletedIds } from '../../store/deleted-repositories.ts'
import type { Engine } from '../../store/engine.ts'
import { appliedMigrations } from '../../store/schema/migrate.ts'
import type { Tables } from '../../store/tables.ts'
import { formatTime, nowInSeconds } from '../../store/time.ts'
import { runInTransaction } from '../../store/transaction-context.ts'
import { publish } from '../../util/durable.ts'
import { type BackupEnd, type BackupHeader, type BackupRows, FORMAT, VERSION } from './format.ts'
import { type DurableTable, durableTables, type OnRows } from './tables.ts'

/** Rows of one query and one line. */
const BATCH = 500

type BackupRow = Record<string, string | number | null>

/**
 * Writes a snapshot of the durable tables to a file. Readers and writers are not blocked. The file
 * appears once it is complete and on disk, and only its owner may read it. Until then it is
 * `FILE.part`. Only one process may write it.
 *
 * @throws the system error if the file cannot be written; StoreUnavailable
 */
export async function writeBackup(engine: Engine, file: string, onRows: OnRows): Promise<void> {
  const draft = `${file}.part`
  await engine.kysely
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute((db) =>
      runInTransaction(() =>
        pipeline(
          Readable.from(dumpLines(engine, db, onRows)),
          createGzip(),
          createWriteStream(draft, { mode: 0o600 }),
        ),
      ),
    )
  await publish(draft, file)
}

async function* dumpLines(engine: Engine, db: Transaction<Tables>, onRows: OnRows): AsyncGenerator<string> {
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
  const deleted = await deletedIds(db)
  for (const table of durableTables) {
    const isIncluded = withoutRepositories(table, deleted)
    const total = await countRows(db, table, isIncluded)
    let done = 0
    for await (const rows of readBatches(db, table, isIncluded)) {
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

/** Returns the condition that a row does not go with deleted repositories. */
function withoutRepositories({ name }: DurableTable, deleted: readonly number[]): RawBuilder<boolean> {
  const isOfRepository = name === 'statuses' || name === 'branch_moves'
  const column = name === 'repositories' ? 'id' : isOfRepository ? 'repository_id' : undefined
  if (column === undefined || deleted.length === 0) return sql`true`
  return sql`${sql.ref(column)} not in (${sql.join(deleted)})`
}

/** Yields the rows of a table that a backup includes, in batches, in key order. */
async function* readBatches(
  db: Transaction<Tables>,
  { name, key }: DurableTable,
  isIncluded: RawBuilder<boolean>,
): AsyncGenerator<BackupRow[]> {
  const columns = sql.join(key.map((column) => sql.ref(column)))
  for (let after = sql`true`; ; ) {
    const { rows }: { rows: BackupRow[] } = await sql<BackupRow>`select * from ${sql.table(name)}
      where ${after} and ${isIncluded} order by ${columns} limit ${BATCH}`.execute(db)
    const last = rows.at(-1)
    if (!last) return
    yield rows
    after = sql`(${columns}) > (${sql.join(key.map((column) => last[column]))})`
  }
}

async function countRows(
  db: Transaction<Tables>,
  { name }: DurableTable,
  isIncluded: RawBuilder<boolean>,
): Promise<number> {
  const { rows } = await sql<{ rows: number }>`select count(*) as rows from ${sql.table(name)}
    where ${isIncluded}`.execute(db)
  return rows[0]?.rows ?? 0
}
