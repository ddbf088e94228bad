import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Test, test } from 'tap'
import { FIRST_BESIDE } from '../../../src/store/schema/migrations.ts'
import { openStore, type StoreOptions } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { createPostgresDatabase, execute, openTestStore, postgres } from '../../helpers/databases.ts'
import { addReport } from '../../helpers/records.ts'

const SHA = 'a'.repeat(40)
const NAMES = `select coalesce(json_agg(proname order by proname), '[]') as names from pg_proc
  where pronamespace = 'public'::regnamespace`

async function namesOf(options: StoreOptions): Promise<string[]> {
  const [row] = await execute(options.databaseUrl ?? '', NAMES)
  return row?.names as string[]
}

async function open(t: Test, options: StoreOptions) {
  const store = await openStore(options)
  t.teardown(() => store.close())
  return store
}

test('a function of another text is missing, and the one that is there stays', async (t) => {
  const { store, options } = await openTestStore(t, postgres)
  const { id: repositoryId } = await asAdministrator(store).repositories.create({
    owner: 'acme',
    name: 'rocket',
    visibility: 'public',
    objectFormat: 'sha1',
  })
  const own = await namesOf(options)
  t.match(own, [/^report_status_[0-9a-f]{16}$/, /^report_statuses_[0-9a-f]{16}$/])
  const [one = '', several = ''] = own

  // What a version with other texts left: only theirs, which would store nothing.
  const other = 'report_status_0123456789abcdef'
  await execute(
    options.databaseUrl ?? '',
    `drop function ${several}`,
    `alter function ${one} rename to ${other}`,
    // Another server's, in the same database.
    'create schema elsewhere',
    `create function elsewhere.${one}() returns int language sql as 'select 1'`,
  )
  const reading = openStore({ ...options, migrate: false })
  await t.rejects(reading, {
    name: 'UnknownSchema',
    message: `the schema is that of an older version (${one} is missing). Run "migrate", or start this version of the server`,
  })
  const upgraded = await open(t, options)
  t.same(await namesOf(options), [other, ...own].sort())
  await open(t, { ...options, migrate: false })

  await execute(options.databaseUrl ?? '', `drop function ${other}`)
  const reports = ['ci/build', 'ci/lint'].map((context) =>
    addReport({ store: upgraded, repositoryId, sha: SHA }, context),
  )
  t.match(await Promise.all(reports), [{ context: 'ci/build' }, { context: 'ci/lint' }])
})

test('functions of versions whose servers may run beside this one stay, and those of others are dropped', async (t) => {
  const folder = resolve(import.meta.dirname, '../fixtures/released')
  const schemas = readdirSync(folder).filter((file) => file.endsWith('-postgres.sql'))
  const fresh = await openTestStore(t, postgres)
  const own = await namesOf(fresh.options)
  const kept: string[] = []
  for (const file of schemas) {
    const schema = readFileSync(resolve(folder, file), 'utf8')
    const url = await createPostgresDatabase(t)
    await execute(url, schema)
    const options = { dataDir: fresh.options.dataDir, databaseUrl: url, poolSize: 2 }
    const theirs = await namesOf(options)
    await open(t, options)
    const isBeside = schema.includes(FIRST_BESIDE)
    if (isBeside) kept.push(...theirs)
    t.same(await namesOf(options), [...new Set([...(isBeside ? theirs : []), ...own])].sort(), file)
  }
  t.ok(kept.length > 0)
})
