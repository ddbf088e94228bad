import { test } from 'tap'
import { openStore } from '../../src/store/store.ts'
import { runCliProcess } from '../helpers/cli-process.ts'
import { createPostgresDatabase, openTestStore, sqlite } from '../helpers/databases.ts'

test('cli copy moves a SQLite database to PostgreSQL and says so on standard error', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  const user = await store.users.create('alice')
  const target = await createPostgresDatabase(t)
  const environment = { DATA_DIR: options.dataDir, COPY_TO_DATABASE_URL: target }
  for (const round of ['first', 'again']) {
    const { stdout, stderr, code } = await runCliProcess(environment, 'copy')
    t.equal(code, 0, round)
    t.equal(stdout, '')
    t.equal(stderr, 'The two databases are equal.\n', 'no progress unless at a terminal')
  }
  const copied = await openStore({ ...options, databaseUrl: target })
  t.teardown(() => copied.close())
  t.same(await copied.users.list(), [user])
})

test('cli copy says what is wrong, and never a password', async (t) => {
  const { options } = await openTestStore(t, sqlite)
  const missing = await runCliProcess({ DATA_DIR: options.dataDir }, 'copy')
  t.equal(missing.code, 2)
  t.match(missing.stderr, /COPY_TO_DATABASE_URL/)

  const wrong = new URL(await createPostgresDatabase(t))
  wrong.password = 'zanzibar'
  const nowhere = 'postgres://user:zanzibar@127.0.0.1:1/db'
  for (const url of [
    wrong.href,
    nowhere,
    'mysql://user:zanzibar@host/db',
    'postgres://u:zanzibar@h:99999/db',
  ]) {
    const { stdout, stderr, code } = await runCliProcess(
      { DATA_DIR: options.dataDir, COPY_TO_DATABASE_URL: url },
      'copy',
    )
    t.equal(code, 1)
    t.equal(stdout, '')
    t.match(stderr, /^error: (PostgreSQL: |COPY_TO_DATABASE_URL must be a URL )/)
    t.notMatch(stderr, /zanzibar/)
  }
})
