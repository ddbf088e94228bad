import { sql } from 'kysely'
import { openRepository } from '../../../src/git/opened-repository.ts'
import { type RefList, readRefList } from '../../../src/git/transfer.ts'
import { durableTables } from '../../../src/maintenance/backup/tables.ts'
import { openStore, type StoreOptions } from '../../../src/store/store.ts'
import { git } from '../../helpers/git.ts'

/** All rows of a service, except events about backups, and all refs of its repositories. */
export interface Content {
  rows: Record<string, unknown[]>
  refs: Record<string, RefList>
}

/** Reads a service, after checking that each object that a ref reaches is there. */
export async function readContent(options: StoreOptions): Promise<Content> {
  const store = await openStore(options)
  try {
    const rows: Content['rows'] = {}
    for (const { name, key } of durableTables) {
      const order = sql.join(key.map((column) => sql.ref(column)))
      const where = name === 'audit_events' ? sql`where action not like 'backup.%'` : sql``
      const found = await sql<
        Record<string, unknown>
      >`select * from ${sql.table(name)} ${where} order by ${order}`.execute(store.engine.kysely)
      // The last use of a token is written in the background, up to a second later.
      rows[name] = found.rows.map(({ last_used_at: _, ...row }) => row)
    }
    const refs: Content['refs'] = {}
    for (const repository of await store.repositories.list()) {
      const { id, path } = repository
      git(path, 'rev-list', '--objects', '--quiet', '--all', 'HEAD')
      refs[id] = await readRefList(await openRepository(repository))
    }
    return { rows, refs }
  } finally {
    await store.close()
  }
}
