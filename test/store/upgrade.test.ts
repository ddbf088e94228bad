import { execFileSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import { schemas } from '../../generated/schemas.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import type { StoreOptions } from '../../src/store/store.ts'
import { runCli } from '../helpers/cli.ts'
import {
  createPostgresDatabase,
  execute,
  openTestStore,
  postgres,
  sqlite,
  temporaryFolder,
} from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

/** One file for each release and dialect: the schema that the release creates, with data. A file is never changed. */
const folder = resolve(import.meta.dirname, 'fixtures/released')
const SHA = '2c26b46b68ffc68ff99b453c1d30413413422d70'

/** Fills a new database with a released schema and its data. */
async function load(t: Test, sql: string, dialect: string): Promise<StoreOptions> {
  const dataDir = temporaryFolder(t)
  if (dialect === 'postgres') {
    const databaseUrl = await createPostgresDatabase(t)
    await execute(databaseUrl, sql)
    return { dataDir, databaseUrl, poolSize: 2 }
  }
  const database = new Sqlite(join(dataDir, 'commit-status.db'))
  database.exec(sql)
  database.close()
  return { dataDir }
}

for (const file of readdirSync(folder)) {
  t.test(`upgrades ${file}`, async (t) => {
    const sql = readFileSync(join(folder, file), 'utf8')
    const [, dialect = '', token = ''] = /-(\w+)\.sql (\S+)/.exec(`${file} ${/cst_\w{38}/.exec(sql)}`) ?? []
    const path = join(temporaryFolder(t), 'rocket.git')
    await createBareRepository(path, 'sha1')
    const options = await load(t, sql.replace('/srv/git/rocket.git', path), dialect)
    const kind = dialect === 'postgres' ? postgres : sqlite
    // Earlier versions imported such a repository.
    chmodSync(join(path, 'config'), 0o666)
    if (process.getuid?.() === 0) execFileSync('chown', ['-R', 'nobody', path])
    const files = async () =>
      options.databaseUrl
        ? execute(options.databaseUrl, `select pg_relation_filenode('statuses') as file`)
        : null
    const before = await files()
    const server = await startServer(t, { database: { ...kind, create: async () => options } })

    t.same(await files(), before, 'does not rewrite the largest table')
    const { json } = await server.read('acme/rocket', SHA, token)
    t.same([json.state, json.statuses?.length], ['pending', 2])
    t.match(json.statuses?.[0], { description: '412 tests passed', created_at: '2026-01-01T00:00:00Z' })
    const report = await server.report('acme/rocket', SHA, { state: 'failure', context: 'ci/lint' }, token)
    t.match(report, { status: 201, json: { created_at: '2026-01-01T00:00:00Z' } })
    const { id } = await server.store.repositories.get('acme', 'rocket')
    const statuses = await server.store.statuses.listBatchByState(
      { repositoryId: id, sha: SHA },
      schemas.State.enum,
      '',
      10,
    )
    t.same(
      statuses.map((row) => [row.reporter_user, row.reporter_token]),
      [
        [null, null],
        ['Alice', 'CI'],
      ],
      'tokens from before have a reporter, and their reports from before do not',
    )
    t.equal((await server.read('acme/rocket', SHA)).status, 401, 'still private')
    t.same(
      (await server.store.users.list()).map(({ id, name }) => [id, name]),
      [
        [1, 'Alice'],
        [3, 'bob'],
      ],
    )
    t.equal((await server.store.users.create('carol')).id, 4, 'no id is used again')

    const environment = { DATA_DIR: options.dataDir, DATABASE_URL: options.databaseUrl ?? undefined }
    const { log } = await startInstance(t, options, { LOG_LEVEL: 'warn' })
    const trust = `repo import Acme/Rocket '${path}' --trust-owner`
    await until(() => log.some((line) => line.includes(trust)))
    const problem = new RegExp(
      `Acme/Rocket: .*other accounts can write ${path}/config; .*chmod go-w.*${trust}`,
    )
    t.match(await runCli(['check'], environment), { code: 1, stdout: problem })
    t.match(await runCli(trust.replaceAll("'", '').split(' '), environment), { code: 0 })
    t.match(await runCli(['check'], environment), {
      code: 0,
      stdout: '',
      stderr: /trusted \(--trust-owner\)/,
    })

    const fresh = await openTestStore(t, kind)
    const shape = async ({ engine }: typeof fresh.store) => {
      const tables = await engine.kysely.introspection.getTables()
      return tables.map(({ name, columns }) => [
        name,
        columns.map(({ name, dataType, isNullable }) => [name, dataType, isNullable]),
      ])
    }
    t.same(await shape(server.store), await shape(fresh.store), 'the schema of a new database')
  })
}
