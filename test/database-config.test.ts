import { test } from 'tap'
import { readConfig } from '../src/config.ts'

test('without DATABASE_URL the database is SQLite', async (t) => {
  t.match(readConfig({}), { databaseUrl: null, poolSize: 10 })
  t.match(readConfig({ DATABASE_URL: '' }), { databaseUrl: null })
})

test('DATABASE_URL names a PostgreSQL database', async (t) => {
  for (const url of [
    'postgres://user:secret@host:5432/database',
    'postgresql://host/database?sslmode=verify-full',
    'postgres://user:p%40ss@[::1]:5433/database',
    'postgres:///database?host=/var/run/postgresql',
  ]) {
    t.equal(readConfig({ DATABASE_URL: url, DATABASE_POOL: '3' }).databaseUrl, url)
  }
  t.equal(readConfig({ DATABASE_POOL: '3' }).poolSize, 3)
})

test('an error names the variable and hides the value', async (t) => {
  for (const url of [
    'zanzibar',
    'mysql://user:zanzibar@host/database',
    'postgres:user:zanzibar@host',
    'postgres://user:zanzibar@host:99999/database',
  ]) {
    const error = t.throws(
      () => readConfig({ DATABASE_URL: url }),
      { name: 'ConfigError', message: /^DATABASE_URL: the value is not the URL of a PostgreSQL database / },
      url,
    )
    t.notMatch(error instanceof Error ? error.stack : '', /zanzibar/)
  }
  for (const [url, message] of [
    ['postgres://user:12/zanzibar@host/database', /"@" after the host\. Percent-encode \/ \? # @ and %/],
    ['postgres://user:12?zanzibar@host/database', /"@" after the host\. Percent-encode/],
    ['postgres://user:12#zanzibar@host/database', /"@" after the host\. Percent-encode/],
    ['postgres://user:zan@zibar/1@host/database', /"@" after the host\. Percent-encode/],
    ['postgres://user:zanzibar@one,two/database', /several hosts/],
    ['postgres://user:zanzibar@one:5432,two:5432/database', /several hosts/],
    ['postgres://user:zanzibar@/database?host=one,two', /several hosts/],
  ] as const) {
    const error = t.throws(() => readConfig({ DATABASE_URL: url }), { name: 'ConfigError', message }, url)
    t.notMatch(error instanceof Error ? error.stack : '', /zan|zibar|one:|,two/)
  }
  t.equal(
    readConfig({ DATABASE_URL: 'postgres://user:a,b@c@host/x' }).databaseUrl,
    'postgres://user:a,b@c@host/x',
  )
  t.throws(
    () => readConfig({ DATABASE_URL: 'postgres://user:zanzibar@host/database?sslcert=/nonexistent/x' }),
    {
      name: 'ConfigError',
      message: "DATABASE_URL: ENOENT: no such file or directory, open '/nonexistent/x'",
    },
  )
  for (const pool of ['0', '-1', '1.5', 'ten', '1001']) {
    t.throws(() => readConfig({ DATABASE_POOL: pool }), {
      name: 'ConfigError',
      message: /^DATABASE_POOL: /,
    })
  }
})
