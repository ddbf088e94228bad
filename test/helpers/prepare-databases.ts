import { randomBytes } from 'node:crypto'
import type { Test } from 'tap'
import { migrate } from '../../src/store/schema/migrate.ts'
import { openEngine } from '../../src/store/store.ts'
import { databaseUrl, execute } from './databases.ts'
import { startPostgres } from './postgres-server.ts'

/** Databases shared by all files of a test run. */
export interface PreparedDatabases {
  /** Environment variables of the tests: the server, and the template of new databases. */
  environment: { TEST_DATABASE_URL: string; TEST_DATABASE_TEMPLATE: string }
  remove(): Promise<void>
}

/**
 * Prepares databases for a program that is not started by `test/run.ts`. The teardown removes them.
 */
export async function provideDatabases(t: Pick<Test, 'teardown'>): Promise<void> {
  const { environment, remove } = await prepareDatabases()
  t.teardown(remove)
  Object.assign(process.env, environment)
}

/**
 * Starts a PostgreSQL server, unless `TEST_DATABASE_URL` names one, and creates a template database
 * with the schema.
 */
export async function prepareDatabases(): Promise<PreparedDatabases> {
  const named = process.env.TEST_DATABASE_URL
  // Each connection is a process that maps the buffers. That takes longer than most queries of
  // tests.
  const server = named ? undefined : await startPostgres({ shared_buffers: '8MB' })
  const url = named || server?.url || ''
  const template = `test_template_${randomBytes(6).toString('hex')}`
  try {
    await execute(url, `create database ${template} template template0`)
    const engine = await openEngine({ dataDir: '', databaseUrl: databaseUrl(url, template), poolSize: 1 })
    await migrate(engine)
    await engine.close()
  } catch (error) {
    await server?.stop()
    throw error
  }
  return {
    environment: { TEST_DATABASE_URL: url, TEST_DATABASE_TEMPLATE: template },
    async remove() {
      if (server) return server.stop()
      const copies = await execute(
        url,
        `select datname as name from pg_database where starts_with(datname, '${template}')`,
      )
      await execute(url, ...copies.map(({ name }) => `drop database ${name} with (force)`))
    },
  }
}
