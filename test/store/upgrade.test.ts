import { execFileSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import { createBareRepository } from '../../src/git/repository.ts'
import type { AuditFilter } from '../../src/store/audit/repository-events.ts'
import { openStore, type StoreOptions } from '../../src/store/store.ts'
import { basic } from '../git-http/client.ts'
import { beginRpc, pushBody } from '../git-http/raw.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import {
  createPostgresDatabase,
  execute,
  openTestStore,
  postgres,
  sqlite,
  temporaryFolder,
} from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { createCommits } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer, type TestServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

/**
 * One file for each release and dialect: the schema that the release creates, with data. A file is
 * never changed.
 */
const folder = resolve(import.meta.dirname, 'fixtures/released')
const SHA = '2c26b46b68ffc68ff99b453c1d30413413422d70'

/** What differs between the files of releases. */
interface Contents {
  /** Id, name and time of locking. */
  users: [number, string, number | null][]
  /** The highest id that a user had. */
  lastUserId: number
  /** User and token that reported `ci/build`. */
  reporter: [string | null, string | null]
}

const accounts: Contents = {
  users: [
    [1, 'Alice', null],
    [2, 'bob', null],
    [3, 'mallory', 1767225660],
  ],
  lastUserId: 4,
  reporter: ['zoe', 'laptop'],
}
const contents: Record<string, Contents> = {
  '0.1.0': {
    users: [
      [1, 'Alice', null],
      [3, 'bob', null],
    ],
    lastUserId: 3,
    reporter: [null, null],
  },
  '0.2.0': accounts,
  '0.3.0': accounts,
  '0.4.0': accounts,
  '0.5.0': accounts,
}

/** Fills a new database with a released schema and its data. */
async function load(t: Test, sql: string, dialect?: string): Promise<StoreOptions> {
  const dataDir = temporaryFolder(t)
  const options =
    dialect === 'postgres'
      ? { dataDir, databaseUrl: await createPostgresDatabase(t), poolSize: 2 }
      : { dataDir }
  await change(options, sql)
  return options
}

async function change({ dataDir, databaseUrl }: StoreOptions, sql: string): Promise<void> {
  if (databaseUrl) {
    await execute(databaseUrl, sql)
    return
  }
  const database = new Sqlite(join(dataDir, 'commit-status.db'))
  database.exec(sql)
  database.close()
}

/** A rule that version 0.3.0 stored and did not apply. */
const TAG_RULE = `insert into branch_rules (repository_id, branch_pattern, required, created_at)
  values (2, 'refs/tags/v*', '["ci/build"]', 1767225660)`

/** Expects that it protects tags, also an older one. */
async function expectTagRule(
  t: Test,
  server: TestServer,
  token: string,
  commit: string,
  environment: NodeJS.ProcessEnv,
): Promise<void> {
  const push = async (ref: string) => {
    const { request, answer } = beginRpc(
      `${server.url}/acme/rocket.git`,
      'git-receive-pack',
      basic('x', token),
    )
    request.end(pushBody([`${'0'.repeat(40)} ${commit} ${ref}`], 'report-status'))
    return (await answer).body.toString()
  }
  t.match(await push('refs/tags/v1'), 'ng refs/tags/v1 ci/build has not reported')
  t.match(await push('refs/tags/w1'), 'ok refs/tags/w1')
  const { stdout } = await runCli(['rule', 'list', 'acme/rocket', '--json'], environment)
  t.match(JSON.parse(stdout), [
    { branch: 'main', note: '' },
    { branch: 'refs/tags/v*', note: '' },
  ])
}

/** Expects the data of columns and tables that version 0.1.0 does not have. */
async function expectAccountsAndRules(
  t: Test,
  { store, report }: TestServer,
  repositoryId: number,
  token: string,
): Promise<void> {
  const [lint] = await store.tokens.list(2)
  t.match(lint, { name: 'lint', repositories: ['Acme/Rocket'], contexts: ['ci/lint*'], push: false })
  const answer = await report('acme/rocket', SHA, { state: 'success', context: 'ci/build' }, token)
  t.equal(answer.status, 403, 'a limited token stays limited')
  const [rule] = await store.rules.load(repositoryId)
  t.same(rule, { refPattern: 'main', required: ['ci/build', 'ci/lint*'], bypass: [{ id: 1, name: 'Alice' }] })
  t.match(await store.engine.kysely.selectFrom('sessions').selectAll().execute(), [
    { user_id: 1, address: '192.0.2.7', user_agent: /Firefox/ },
  ])

  t.equal((await listEvents(store)).length, 19)
  const actions = async (filter: AuditFilter) => (await listEvents(store, filter)).map(({ action }) => action)
  t.same(await actions({ user: 'zoe' }), ['user.created', 'token.created', 'user.deleted'])
  const subjects = await store.engine.kysely
    .selectFrom('audit_events')
    .select('subject_name')
    .orderBy('id')
    .execute()
  t.same(
    subjects.slice(12).map(({ subject_name }) => subject_name),
    ['zoe', null, null, 'Alice', 'bob', 'mallory', 'zoe'],
    'old events have the subjects that they name',
  )
  t.match((await listEvents(store, { repository: 'acme/rocket' })).at(-1), {
    time: '2026-01-01T00:01:00.000Z',
    actor: 'user',
    user: 'Alice',
    token_id: '3ab3dbb0e5f11693',
    token_name: 'CI',
    address: '192.0.2.7',
    action: 'rule.bypassed',
    object: 'Acme/Rocket',
    details: { ref: 'refs/heads/main', new: SHA, reason: 'ci/lint is pending' },
  })
}

/** Expects the data of columns and tables that version 0.2.0 does not have. */
async function expectOwnersAndLinks(t: Test, { store }: TestServer): Promise<void> {
  const { kysely } = store.engine
  const members = kysely.selectFrom('members').innerJoin('owners', 'owners.id', 'members.owner_id')
  t.same(await members.select(['name', 'user_id', 'permission']).where('name', '=', 'Acme').execute(), [
    { name: 'Acme', user_id: 2, permission: 'write' },
  ])
  t.match(await kysely.selectFrom('reserved_names').selectAll().execute(), [
    { name: 'Missile', repository_id: 2 },
  ])
  const bob = await kysely.selectFrom('users').selectAll().where('id', '=', 2).executeTakeFirst()
  t.match(bob, { oidc_issuer: 'https://id.example.org', oidc_subject: 'b-1', signed_in_at: 1767225660 })
  const [, lint] = await kysely.selectFrom('statuses').select('pending_at').orderBy('context').execute()
  t.same(lint, { pending_at: 1767225600 })
}

/** Expects the data of a column that version 0.3.0 does not have. */
async function expectRun(t: Test, server: TestServer, token: string): Promise<void> {
  const late = { state: 'pending', context: 'ci/build', run: 'pipeline-4711', elapsed: 1_000 }
  t.match(await server.report('acme/rocket', SHA, late, token), { status: 409 })
}

/** Expects the data of tables and columns that version 0.4.0 does not have. */
async function expectMovesAndReservations(
  t: Test,
  { store }: TestServer,
  repositoryId: number,
): Promise<void> {
  t.match(await store.reservations.list(repositoryId), [
    { pattern: 'deploy*', users: [{ id: 2, name: 'bob' }] },
  ])
  const moves = store.engine.kysely.selectFrom('branch_moves').selectAll()
  t.match(await moves.execute(), [
    { repository_id: 2, ref: 'refs/heads/main', push_id: 1, old_id: '0'.repeat(40), new_id: SHA },
  ])
}

/** Expects that events are found by the repository, also those from before they had its id. */
async function expectEvents(t: Test, { store }: TestServer, repositoryId: number): Promise<void> {
  const events = await store.auditLog.latestOf(repositoryId, 1, {}, 20)
  t.same(events.map(({ action }) => action).reverse(), [
    'repository.imported',
    ...Array.from({ length: 3 }, () => 'repository.access'),
    'rule.set',
    'rule.bypassed',
  ])
}

for (const file of readdirSync(folder)) {
  t.test(`upgrades ${file}`, async (t) => {
    const sql = readFileSync(join(folder, file), 'utf8')
    const [, release = '', dialect] = /^(.+)-(\w+)\.sql$/.exec(file) ?? []
    const [token = '', limited = ''] = sql.match(/cst_\w{38}/g) ?? []
    const expected = contents[release]
    if (!expected) throw new Error(`${release}: add its contents to this test`)
    const path = join(temporaryFolder(t), 'rocket.git')
    await createBareRepository(path, 'sha1')
    const [commit = ''] = createCommits(path, 1)
    const data = sql.replace('/srv/git/rocket.git', path)
    const options = await load(t, release === '0.3.0' ? `${data}\n${TAG_RULE};` : data, dialect)
    const kind = dialect === 'postgres' ? postgres : sqlite
    // Version 0.1.0 imported such a repository, and later ones if its owner was trusted.
    chmodSync(join(path, 'config'), 0o666)
    if (process.getuid?.() === 0) execFileSync('chown', ['-R', 'nobody', path])
    const files = async () =>
      options.databaseUrl
        ? execute(options.databaseUrl, `select pg_relation_filenode('statuses') as file`)
        : null
    const environment = { DATA_DIR: options.dataDir, DATABASE_URL: options.databaseUrl ?? undefined }
    if (release === '0.1.0') {
      const older =
        /: the schema is that of an older version \(002-auth-reservations is missing\)\. Run "migrate"/
      for (const command of [
        ['user', 'list'],
        ['check'],
        ['backup', '/nonexistent/x'],
        ['prune', '--older-than', '1d', '--dry-run'],
      ])
        t.match(await runCli(command, environment), { code: 1, stdout: '', stderr: older }, command.join(' '))
    }
    const before = await files()
    const notices: string[] = []
    const upgraded = { ...options, onNotice: (text: string) => notices.push(text) }
    if (release === '0.3.0') {
      // A migration after those that take long fails.
      await change(options, 'create table branch_moves (id integer)')
      await t.rejects(openStore(upgraded), /branch_moves/)
      await change(options, 'drop table branch_moves')
      t.same(notices, [])
    }
    const server = await startServer(t, { database: { ...kind, create: async () => upgraded } })
    const isBeforeOwners = release === '0.1.0' || release === '0.2.0'
    t.equal(notices.length, release < '0.4.0' ? 1 : 0, 'says which servers must not run beside it')

    t.same(await files(), before, 'does not rewrite the largest table')
    const { json } = await server.read('acme/rocket', SHA, token)
    t.same([json.state, json.statuses?.length], ['pending', 2])
    t.match(json.statuses?.[0], { description: '412 tests passed', created_at: '2026-01-01T00:00:00Z' })
    const report = await server.report('acme/rocket', SHA, { state: 'failure', context: 'ci/lint' }, token)
    t.match(report, { status: 201, json: { created_at: '2026-01-01T00:00:00Z' } })
    const { id } = await server.store.repositories.get('acme', 'rocket')
    const statuses = await server.store.statuses.listWithReporters({ repositoryId: id, sha: SHA })
    t.same(
      statuses.map((row) => [row.reporter_user, row.reporter_token]),
      [expected.reporter, ['Alice', 'CI']],
      'each token has a reporter, also one from before reporters, whose reports from then have none',
    )
    t.equal((await server.read('acme/rocket', SHA)).status, 401, 'still private')
    const users = await server.store.users.list()
    t.same(
      users.map((user) => [user.id, user.name, user.lockedAt]),
      expected.users,
    )
    if (release !== '0.1.0') {
      await expectAccountsAndRules(t, server, id, limited)
      await expectEvents(t, server, id)
    }
    if (!isBeforeOwners) {
      await expectOwnersAndLinks(t, server)
      await expectTagRule(t, server, token, commit, environment)
    }
    if (release >= '0.4.0') await expectRun(t, server, token)
    if (release >= '0.5.0') await expectMovesAndReservations(t, server, id)
    t.equal(
      (await asAdministrator(server.store).users.create('carol')).id,
      expected.lastUserId + 1,
      'no id is used again',
    )

    for (const { managed, path, objectFormat } of await server.store.repositories.list())
      if (managed) await createBareRepository(path, objectFormat)
    if (release === '0.1.0') {
      const { log } = await startInstance(t, options, { LOG_LEVEL: 'warn' })
      const trust = `repo import Acme/Rocket '${path}' --trust-owner`
      await until(() => log.some((line) => line.includes(trust)))
      const problem = new RegExp(
        `Acme/Rocket: .*other accounts can write ${path}/config; .*chmod go-w.*${trust}`,
      )
      t.match(await runCli(['check'], environment), { code: 1, stdout: problem })
      t.match(await runCli(trust.replaceAll("'", '').split(' '), environment), { code: 0 })
    }
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
