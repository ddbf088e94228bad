import { type Kysely, sql } from 'kysely'
import type { Engine } from '../../store/engine.ts'
import { addMissingReporters, appliedMigrations } from '../../store/migrations.ts'
import { RuleViolation } from '../../store/rule-violation.ts'
import type { Tables } from '../../store/tables.ts'
import { type BackupEnd, type BackupHeader, type BackupRows, damaged } from './format.ts'
import { checkMigrations, readBackup } from './read.ts'
import { durableTables, type OnRows } from './tables.ts'

/** The first and the last line of a backup. */
export type BackupFrame = Pick<BackupHeader, 'created_at'> & BackupEnd

/**
 * Restores a backup of either kind of database into an empty database, in one transaction.
 *
 * @param finish runs at the end of the transaction
 * @throws RuleViolation if the database is not empty, or if the file cannot be read, is not a backup, damaged or written
 * by a newer version; StoreUnavailable
 */
export async function restoreBackup(
  engine: Engine,
  file: string,
  onRows: OnRows,
  finish: (db: Kysely<Tables>, frame: BackupFrame) => Promise<void> = async () => {},
): Promise<BackupFrame> {
  // Reads the whole file first, to find damage before hours are spent on the rows before it.
  const applied = await appliedMigrations(engine.kysely)
  let created_at = ''
  const header = async (found: BackupHeader) => {
    checkMigrations(found, applied)
    created_at = found.created_at
  }
  const { counts } = await readBackup(file, { header })
  return engine.kysely.transaction().execute(async (db) => {
    await checkEmpty(db)
    const done = new Map<string, number>()
    const rows = async (part: BackupRows) => {
      if (!durableTables.some(({ name }) => name === part.table)) throw damaged()
      await insertRows(db, part)
      const count = (done.get(part.table) ?? 0) + part.rows.length
      done.set(part.table, count)
      onRows(part.table, count, counts[part.table] ?? count)
    }
    const end = await readBackup(file, { rows })
    for (const { name, numbered } of durableTables) {
      if (numbered) await engine.setLastId(db, name, end.last_ids[name] ?? 0)
    }
    // Tokens in a backup of an older version have none.
    for (const statement of addMissingReporters) await sql.raw(statement).execute(db)
    const frame = { created_at, ...end }
    await finish(db, frame)
    return frame
  })
}

/** @throws RuleViolation if a table has rows */
export async function checkEmpty(db: Kysely<Tables>): Promise<void> {
  for (const { name } of durableTables) {
    const { rows } = await sql`select 1 from ${sql.table(name)} limit 1`.execute(db)
    if (rows.length > 0) throw new RuleViolation(`the database is not empty: it contains ${name}`)
  }
}

async function insertRows(db: Kysely<Tables>, { table, columns, rows }: BackupRows): Promise<void> {
  if (rows.some((row) => row.length !== columns.length)) throw damaged()
  const names = sql.join(columns.map((name) => sql.ref(name)))
  const values = sql.join(rows.map((row) => sql`(${sql.join(row)})`))
  await sql`insert into ${sql.table(table)} (${names}) values ${values}`.execute(db)
}
