import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'tap'
import { openStore } from '../../src/store/store.ts'
import { createPostgresDatabase, openTestStore, sqlite } from '../helpers/databases.ts'

async function copy(environment: Record<string, string>) {
  const child = spawn(process.execPath, [resolve('src/cli/main.ts'), 'copy'], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])
  return { stdout, stderr, code }
}

test('cli copy moves a SQLite database to PostgreSQL and says so on standard error', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  const user = await store.users.create('alice')
  const target = await createPostgresDatabase(t)
  const environment = { DATA_DIR: options.dataDir, COPY_TO_DATABASE_URL: target }
  for (const round of ['first', 'again']) {
    const { stdout, stderr, code } = await copy(environment)
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
  const missing = await copy({ DATA_DIR: options.dataDir })
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
    const { stdout, stderr, code } = await copy({ DATA_DIR: options.dataDir, COPY_TO_DATABASE_URL: url })
    t.equal(code, 1)
    t.equal(stdout, '')
    t.match(stderr, /^error: (PostgreSQL: |COPY_TO_DATABASE_URL must be a URL )/)
    t.notMatch(stderr, /zanzibar/)
  }
})
