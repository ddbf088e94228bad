import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'
import { appliedMigrations } from '../migrations.ts'
import { Refused } from '../refused.ts'
import type { Tables } from '../tables.ts'
import { type BackupHeader, type BackupRows, damaged } from './format.ts'
import { checkMigrations, readBackup } from './read.ts'
import { lastingTables, type OnRows } from './write.ts'

/**
 * Fills an empty database from a backup, which may come from the other kind of database. All or nothing: when it fails
 * or is killed, the database is as empty as before.
 *
 * @throws Refused when the database holds anything, or the file is no backup, is damaged or of a newer version; the
 * system's error when it cannot be read; StoreUnavailable
 */
export async function restoreBackup(engine: Engine, file: string, onRows: OnRows): Promise<void> {
  // All of it once before: damage is known before hours are spent on what lies in front of it.
  const applied = await appliedMigrations(engine.kysely)
  const header = async (found: BackupHeader) => checkMigrations(found, applied)
  await readBackup(file, { header, rows: async () => {} })
  await engine.kysely.transaction().execute(async (db) => {
    await checkEmpty(db)
    const done = new Map<string, number>()
    const lastIds = await readBackup(file, {
      header,
      async rows(part) {
        if (!lastingTables.some(({ name }) => name === part.table)) throw damaged()
        await insertRows(db, part)
        const count = (done.get(part.table) ?? 0) + part.rows.length
        done.set(part.table, count)
        onRows(part.table, count)
      },
    })
    for (const { name, numbered } of lastingTables) {
      if (numbered) await engine.setLastId(db, name, lastIds[name] ?? 0)
    }
  })
}

async function checkEmpty(db: Kysely<Tables>): Promise<void> {
  for (const { name } of lastingTables) {
    const { rows } = await sql`select 1 from ${sql.table(name)} limit 1`.execute(db)
    if (rows.length > 0) throw new Refused(`the database is not empty: there are ${name}`)
  }
}

async function insertRows(db: Kysely<Tables>, { table, columns, rows }: BackupRows): Promise<void> {
  if (rows.some((row) => row.length !== columns.length)) throw damaged()
  const names = sql.join(columns.map((name) => sql.ref(name)))
  const values = sql.join(rows.map((row) => sql`(${sql.join(row)})`))
  await sql`insert into ${sql.table(table)} (${names}) values ${values}`.execute(db)
}
