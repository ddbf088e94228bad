import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { openStore } from '../../../src/store/store.ts'
import { createPostgresDatabase, execute, temporaryFolder } from '../../helpers/databases.ts'
import { until } from '../../helpers/until.ts'

const RELEASED = resolve(import.meta.dirname, '../fixtures/released/0.4.0-postgres.sql')

async function connect(t: Test, url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

t.test('older servers read and write while a newer one brings the schema up to date', async (t) => {
  const databaseUrl = await createPostgresDatabase(t)
  // An event of before version 0.4.0.
  const event = `insert into audit_events (time, actor, action, object, repository_key, details)
    values (1767225661000, 'administrator', 'rule.set', 'Acme/Rocket', 'acme/rocket', '{}')`
  await execute(databaseUrl, readFileSync(RELEASED, 'utf8'), event)
  const [holder, backup, reader] = [
    await connect(t, databaseUrl),
    await connect(t, databaseUrl),
    await connect(t, databaseUrl),
  ]
  await reader.query(`set statement_timeout = '20s'`)
  const tables = await reader.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations'`,
  )
  const readAll = async (when: string) => {
    for (const { name } of tables.rows)
      await t.resolves(reader.query(`select from ${name} limit 1`), `${name}, ${when}`)
  }
  /** Waits until the upgrade waits for one of these. */
  const waitsFor = (...modes: string[]) =>
    until(async () => {
      const { rows } = await reader.query(
        `select from pg_locks where not granted and mode = any ($1)
          and pid in (select pid from pg_stat_activity where datname = current_database())`,
        [modes],
      )
      return rows.length > 0
    })

  // As many old events take long.
  await holder.query('begin')
  await holder.query('select from audit_events where repository_id is null for update')
  await backup.query('begin')
  for (const { name } of tables.rows) await backup.query(`select from ${name} limit 1`)
  const opened = openStore({ dataDir: temporaryFolder(t), databaseUrl, poolSize: 2 })
  await waitsFor('ShareLock')
  await readAll('while events are completed')
  await holder.query('commit')
  await waitsFor('AccessExclusiveLock')
  await readAll('while tables are read by a backup')
  const write = `insert into audit_events (time, actor, action, object, details)
    values (1767225662000, 'administrator', 'user.created', 'carol', '{}')`
  await t.resolves(reader.query(write), 'events are written then')
  await backup.query('commit')
  const store = await opened
  t.teardown(() => store.close())
  const { rows } = await reader.query(
    'select from audit_events where repository_key is not null and repository_id is null',
  )
  t.equal(rows.length, 0, 'it is up to date')
})
