import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import { openStore, type Store } from '../../src/store/store.ts'
import { runCliProcess } from '../helpers/cli-process.ts'
import { execute, sqlite } from '../helpers/databases.ts'
import { startPostgres } from '../helpers/postgres-server.ts'

const STATUSES = 5_000
const shaOf = (index: number) => index.toString(16).padStart(40, '0')

/** Stores statuses in one repository, one for each commit. */
async function fill(store: Store): Promise<void> {
  await store.users.create('alice')
  const { id: repositoryId } = await store.repositories.create({
    owner: 'alice',
    name: 'rocket',
    visibility: 'public',
    objectFormat: 'sha1',
  })
  for (let from = 0; from < STATUSES; from += 100) {
    const reports = Array.from({ length: 100 }, (_, index) =>
      store.statuses.report({
        repositoryId,
        sha: shaOf(from + index),
        context: 'ci',
        state: 'success',
        description: 'd'.repeat(100),
        targetUrl: null,
      }),
    )
    await Promise.all(reports)
  }
}

const spoil = [
  `update statuses set state = 'green' where sha in ('${shaOf(0)}', '${shaOf(STATUSES - 1)}')`,
  `update repositories set path = '/nonexistent'`,
]

/** Overwrites bytes of a file. */
function overwrite(file: string, offset: number, length: number): void {
  const descriptor = openSync(file, 'r+')
  writeSync(descriptor, Buffer.alloc(length, 0xa5), 0, length, offset)
  closeSync(descriptor)
}

async function checkDamaged(t: Test, environment: Record<string, string>): Promise<string> {
  const { code, stdout, stderr } = await runCliProcess(environment, 'check')
  t.equal(code, 1)
  t.match(stdout, /^statuses: cannot read rows after \["?\d+"?,"0{30}.{10}","ci"\] and before \[.*\]: /m)
  for (const index of [0, STATUSES - 1])
    t.ok(stdout.includes(`"${shaOf(index)}","ci"]: its state is "green"`), 'on both sides of the damage')
  t.match(stderr, /error: found \d+ problems\. The database is damaged: .* restore the newest backup/)
  const pruned = await runCliProcess(environment, 'check', '--prune')
  t.equal(pruned.stdout, stdout, 'removes nothing and prints the same findings')
  return stdout
}

t.test('SQLite: reports all problems of a damaged file', async (t) => {
  const { dataDir } = await sqlite.create(t)
  const store = await openStore({ dataDir })
  await fill(store)
  await store.close()
  const file = join(dataDir, 'commit-status.db')
  const database = new Sqlite(file)
  for (const statement of spoil) database.exec(statement)
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

  const stdout = await checkDamaged(t, { DATA_DIR: dataDir })
  t.match(stdout, new RegExp(`page ${middle}\\b.*`), "the findings of SQLite's own check")
  t.match(stdout, /SQLITE_CORRUPT/)

  overwrite(file, 0, size)
  const lost = await runCliProcess({ DATA_DIR: dataDir }, 'check')
  t.equal(lost.code, 1)
  t.match(lost.stderr, /SQLITE_NOTADB: .* restore the newest backup/)
})

t.test('PostgreSQL: reports all problems of a damaged table', async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const { url } = server
  const store = await openStore({ dataDir: t.testdir(), databaseUrl: url })
  await fill(store)
  await store.close()
  const [place] = await execute(
    url,
    ...spoil,
    'checkpoint',
    `select current_setting('data_directory') || '/' || pg_relation_filepath('statuses') as file,
      pg_relation_size('statuses') as size`,
  )
  // PostgreSQL stores rows in order of insertion, except for the two that were updated.
  overwrite(String(place?.file), Math.floor(Number(place?.size) / 2 / 8192) * 8192, 8192)
  await server.crash()

  const stdout = await checkDamaged(t, { DATABASE_URL: url })
  t.match(stdout, /invalid page in block/)
})
