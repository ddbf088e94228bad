import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import t from 'tap'
import { openStore } from '../../src/store/store.ts'
import { runCliProcess } from '../helpers/cli-process.ts'
import { sqlite } from '../helpers/databases.ts'

const STATUSES = 5_000

/** Overwrites bytes of a file. */
function overwrite(file: string, offset: number, length: number): void {
  const descriptor = openSync(file, 'r+')
  writeSync(descriptor, Buffer.alloc(length, 0xa5), 0, length, offset)
  closeSync(descriptor)
}

t.test('reports the damage of a SQLite file, and what to do', async (t) => {
  const { dataDir } = await sqlite.create(t)
  await (await openStore({ dataDir })).close()
  const file = join(dataDir, 'commit-status.db')
  const database = new Sqlite(file)
  database.pragma('foreign_keys = off')
  // Every row refers to a missing repository, which is not reported of damaged pages.
  database.exec(`
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${STATUSES})
    insert into statuses (repository_id, sha, context, id, state, description, created_at, updated_at)
    select 4711, printf('%040x', n), 'ci', 'x', 'success', printf('%.100c', 'd'), 1, 1 from numbers`)
  const pages = database
    .prepare<unknown[], number>(
      `select pageno from dbstat where name = 'statuses' and pagetype = 'leaf' order by path`,
    )
    .pluck()
    .all()
  const size = Number(database.pragma('page_size', { simple: true }))
  database.pragma('wal_checkpoint(truncate)')
  database.close()
  const middle = pages[Math.floor(pages.length / 2)] ?? 0
  overwrite(file, (middle - 1) * size, size)

  const environment = { DATA_DIR: dataDir }
  const { code, stdout, stderr } = await runCliProcess(environment, 'check')
  t.equal(code, 1)
  t.match(stdout, new RegExp(`page ${middle}\\b.*`), "the findings of SQLite's own check")
  t.match(stderr, /error: found \d+ problems?\. The database is damaged: .* restore the newest backup/)
  const pruned = await runCliProcess(environment, 'check', '--commits', '--prune')
  t.equal(pruned.stdout, stdout, 'removes nothing and prints the same findings')

  overwrite(file, 0, size)
  const lost = await runCliProcess(environment, 'check')
  t.equal(lost.code, 1)
  t.match(lost.stderr, /SQLITE_NOTADB: .* restore the newest backup/)
})
