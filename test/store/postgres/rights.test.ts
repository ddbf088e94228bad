import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { restoreBackup } from '../../../src/maintenance/backup/restore.ts'
import { writeBackup } from '../../../src/maintenance/backup/write.ts'
import { createPruning } from '../../../src/maintenance/prune.ts'
import { openStore, type StoreOptions } from '../../../src/store/store.ts'
import { nowInSeconds } from '../../../src/store/time.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import {
  createPostgresDatabase,
  execute,
  openTestStore,
  postgres,
  temporaryFolder,
} from '../../helpers/databases.ts'
import { addReport, addRepository } from '../../helpers/records.ts'
import { BROWSER } from '../../helpers/sessions.ts'

const DATA_RIGHTS = 'select, insert, update, delete'
const GRANT_SEQUENCES = 'grant select, update on all sequences in schema public to'

/** Creates a role without rights of its own. Returns its name, and the options of a store of it. */
async function createRole(t: Test, options: StoreOptions) {
  const url = options.databaseUrl ?? ''
  const role = `server_${randomBytes(6).toString('hex')}`
  await execute(url, `create role ${role} login password 'secret'`)
  t.teardown(() => execute(url, `drop owned by ${role}`, `drop role ${role}`))
  const address = Object.assign(new URL(url), { username: role, password: 'secret' })
  const run = (...statements: string[]) => execute(url, ...statements)
  return { role, run, limited: { ...options, databaseUrl: address.href } }
}

/** Opens a store. The teardown closes it. */
async function open(t: Test, options: StoreOptions) {
  const store = await openStore(options)
  t.teardown(() => store.close())
  return store
}

test('a role with rights on rows alone serves the current schema, and says which right it lacks', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const { role, run, limited } = await createRole(t, options)
  const refused = (message: RegExp) => t.rejects(openStore(limited), { name: 'UnknownSchema', message })
  const grant = `Run as their owner: grant ${DATA_RIGHTS} on all tables in schema public to ${role}$`
  await refused(
    new RegExp(`: the role ${role} may not read and write all rows of audit_events, .*, users\\. ${grant}`),
  )
  await run(`grant ${DATA_RIGHTS} on all tables in schema public to ${role}`)
  await refused(
    new RegExp(
      `: the role ${role} may not read the sequences of audit_events, .*, users, .*\\. Run as their owner: ${GRANT_SEQUENCES} ${role}$`,
    ),
  )
  await run(`${GRANT_SEQUENCES} ${role}`)
  const store = await open(t, limited)
  const { id: repositoryId } = await addRepository(store, 'acme/rocket', { commits: 0 })
  t.match(await addReport({ store, repositoryId, sha: 'a'.repeat(40) }, 'ci/build'), { context: 'ci/build' })

  // As after a migration by the owner, which adds a table.
  await run(`revoke all on branch_moves from ${role}`)
  await refused(new RegExp(`all rows of branch_moves\\. ${grant}`))
  await t.rejects(store.engine.kysely.selectFrom('branch_moves').selectAll().execute(), {
    name: 'PermissionDenied',
    message: 'PostgreSQL: permission denied for table branch_moves',
  })
  await run(
    `grant ${DATA_RIGHTS} on branch_moves to ${role}`,
    `revoke update, delete on audit_events from ${role}`,
  )
  const reader = await open(t, limited)
  const old = ['b', 'c'].map((digit) => digit.repeat(40))
  for (const sha of old) await addReport({ store, repositoryId, sha }, 'ci/build')
  const prune = createPruning(reader, { no_longer_in_git: true })
  await t.rejects(prune(repositoryId, [old[0] ?? ''], nowInSeconds() + 60), {
    name: 'PermissionDenied',
    message: 'PostgreSQL: permission denied for table audit_events',
  })
  t.ok(await store.statuses.hasAny(repositoryId, old[0] ?? ''), 'it fails before it removes anything')

  await run('revoke usage on schema public from public')
  t.teardown(() => run('grant usage on schema public to public'))
  await refused(
    new RegExp(
      `no schema has been selected: the role ${role} .*\\("\\$user", public\\).* grant usage on schema NAME to ${role}$`,
    ),
  )
})

test('ids go on after a role with the rights of the guide has backed up and restored', async (t) => {
  // Those for all that is there, and for what an upgrade adds.
  const grants = {
    now: (role: string) => [
      `grant ${DATA_RIGHTS} on all tables in schema public to ${role}`,
      `${GRANT_SEQUENCES} ${role}`,
    ],
    later: (role: string) => [
      `alter default privileges in schema public grant ${DATA_RIGHTS} on tables to ${role}`,
      `alter default privileges in schema public grant select, update on sequences to ${role}`,
    ],
  }
  const { options } = await openTestStore(t, postgres)
  const { role, run, limited } = await createRole(t, options)
  await run(...grants.now(role))
  const store = await open(t, limited)
  for (const name of ['alice', 'bob', 'carol']) await asAdministrator(store).users.create(name)
  await asAdministrator(store).users.delete('carol')
  const file = join(temporaryFolder(t), 'backup')
  await writeBackup(store.engine, file, () => {})

  const empty = { dataDir: temporaryFolder(t), databaseUrl: await createPostgresDatabase(t) }
  const other = await createRole(t, empty)
  await other.run(...grants.later(other.role))
  await (await openStore(empty)).close()
  const restored = await open(t, other.limited)
  await other.run(`revoke update on all sequences in schema public from ${other.role}`)
  await t.rejects(
    restoreBackup(restored.engine, file, () => t.fail('it fails before the rows')),
    { name: 'PermissionDenied' },
  )
  await other.run(`${GRANT_SEQUENCES} ${other.role}`)
  await restoreBackup(restored.engine, file, () => {})
  t.match(await asAdministrator(restored).users.create('dave'), { id: 4 })
})

test('a role that cannot change the schema', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const { role, run, limited } = await createRole(t, options)
  await run(`grant ${DATA_RIGHTS} on all tables in schema public to ${role}`, `${GRANT_SEQUENCES} ${role}`)
  const [found] = await run(`select proname as name from pg_proc where proname like 'report_status\\_%'`)
  const name = String(found?.name)
  const other = 'report_status_0123456789abcdef'
  await run(`alter function ${name} rename to ${other}`)
  t.teardown(() => run(`alter function ${other} rename to ${name}`))
  await t.rejects(openStore(limited), {
    name: 'UnknownSchema',
    message: `the schema is that of an older version (${name} is missing), and only its owner can change it. Run "migrate" with the credentials of the owner, who needs CREATE on the schema`,
  })

  const empty = { dataDir: temporaryFolder(t), databaseUrl: await createPostgresDatabase(t) }
  const fresh = await createRole(t, empty)
  await t.rejects(openStore(fresh.limited), {
    name: 'UnknownSchema',
    message: new RegExp(
      `: the role ${fresh.role} may not create tables\\. Run: grant create on schema public to ${fresh.role}$`,
    ),
  })
  await fresh.run(`grant create on schema public to ${fresh.role}`)
  const store = await open(t, fresh.limited)
  await asAdministrator(store).users.create('alice')
})

test('nothing needs a function that PostgreSQL 12 does not have', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const { role, run, limited } = await createRole(t, options)
  const newer = 'pg_current_snapshot(), pg_current_xact_id(), gen_random_uuid()'
  await run(
    `grant ${DATA_RIGHTS} on all tables in schema public to ${role}`,
    `${GRANT_SEQUENCES} ${role}`,
    `revoke execute on function ${newer} from public`,
  )
  t.teardown(() => run(`grant execute on function ${newer} to public`))
  const store = await open(t, limited)
  t.equal(await store.sessions.use('unknown', BROWSER), undefined)
  t.match(await store.versions.ofAll(undefined), /^\d+:\d+:/)
  const { id: repositoryId } = await addRepository(store, 'acme/rocket', { commits: 0 })
  t.match(await addReport({ store, repositoryId, sha: 'a'.repeat(40) }, 'ci/build'), { context: 'ci/build' })
})

test('a database that cannot store every character is refused', async (t) => {
  for (const encoding of ['LATIN1', 'SQL_ASCII']) {
    const databaseUrl = await createPostgresDatabase(
      t,
      `encoding '${encoding}' locale_provider libc locale 'C'`,
    )
    await t.rejects(openStore({ dataDir: temporaryFolder(t), databaseUrl }), {
      name: 'StoreUnavailable',
      message: new RegExp(
        `: the encoding of the database is ${encoding}, .* create database NAME template template0 encoding 'UTF8'$`,
      ),
    })
  }
})
