import { test } from 'tap'
import { type CopyProgress, copyStore } from '../../../src/maintenance/copy/copy.ts'
import { ADMINISTRATOR, recordEvent } from '../../../src/store/audit.ts'
import { openStore, type Store } from '../../../src/store/store.ts'
import { createPostgresDatabase, databases, execute, openTestStore, sqlite } from '../../helpers/databases.ts'
import { listEvents } from '../../helpers/events.ts'
import { insertSession } from '../../helpers/sessions.ts'

const TABLES = [
  ...['users', 'repositories', 'collaborators', 'reporters', 'tokens', 'sessions', 'auth_failures'],
  ...['audit_events', 'branch_rules', 'branch_rule_bypasses', 'statuses'],
]
const SHA = 'a'.repeat(40)

for (const database of databases) {
  test(`copies everything from ${database.name}; another copy changes nothing`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    await fill(store)
    const target = await createPostgresDatabase(t)
    const phases = new Set<string>()
    await copyStore(options, target, ({ phase, table }) => phases.add(`${phase} ${table}`))
    t.same(
      phases,
      new Set(TABLES.flatMap((table) => [`copy ${table}`, `verify ${table}`])),
      'copies every table and compares it',
    )

    const copied = await openStore({ ...options, databaseUrl: target })
    t.teardown(() => copied.close())
    for (const name of ['alice', 'bob']) {
      const user = await store.users.find(name)
      t.same(await copied.users.find(name), user)
      t.same(await copied.tokens.list(user?.id ?? 0), await store.tokens.list(user?.id ?? 0))
    }
    t.same(await copied.repositories.list(), await store.repositories.list())
    t.same(await listEvents(copied), await listEvents(store))
    const { id } = await store.repositories.get('alice', 'one')
    const statuses = await copied.statuses.list(id, SHA)
    t.equal(statuses.length, 1_200)
    t.same(statuses, await store.statuses.list(id, SHA))
    const rules = await copied.rules.list(id)
    t.equal(rules.length, 1)
    t.same(rules, await store.rules.list(id))

    await copyStore(options, target, () => {})
    t.same(await copied.statuses.list(id, SHA), statuses, 'unchanged')
  })
}

test('a copy does not reuse ids of deleted rows', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  await fill(store)
  const last = await store.repositories.create({
    owner: 'alice',
    name: 'last',
    visibility: 'public',
    objectFormat: 'sha1',
  })
  await store.repositories.delete('alice', 'last')
  const target = await createPostgresDatabase(t)
  await copyStore(options, target, () => {})
  const copied = await openStore({ ...options, databaseUrl: target })
  t.teardown(() => copied.close())
  const next = await copied.repositories.create({
    owner: 'alice',
    name: 'next',
    visibility: 'public',
    objectFormat: 'sha1',
  })
  t.ok(next.id > last.id)
})

test('resumes an interrupted copy', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  await fill(store)
  const target = await createPostgresDatabase(t)
  const half = ({ phase, table, done }: CopyProgress) => {
    if (phase === 'copy' && table === 'statuses' && done >= 1_000) throw new Error('killed')
  }
  await t.rejects(copyStore(options, target, half), { message: 'killed' })
  t.same(await execute(target, 'select count(*)::int as rows from statuses'), [{ rows: 1_000 }])

  // The source changes meanwhile.
  const { id } = await store.repositories.get('alice', 'one')
  const [token] = await store.tokens.list((await store.users.find('alice'))?.id ?? 0)
  await store.tokens.revoke(token?.id ?? '')
  await store.repositories.delete('carol', 'two')
  await store.users.delete('bob')
  await store.users.create('bob')
  const changed = await store.statuses.report({ ...status(id), context: 'context 1', state: 'error' })
  await copyStore(options, target, () => {})

  const copied = await openStore({ ...options, databaseUrl: target })
  t.teardown(() => copied.close())
  t.same(await copied.tokens.list((await store.users.find('alice'))?.id ?? 0), [])
  t.same(await copied.repositories.list(), await store.repositories.list())
  t.same(await copied.users.list(), await store.users.list())
  const statuses = await copied.statuses.list(id, SHA)
  t.same(
    statuses.find(({ context }) => context === 'context 1'),
    changed,
  )
  t.same(statuses, await store.statuses.list(id, SHA))
})

test('does not change a target with other content', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  await fill(store)
  const target = await createPostgresDatabase(t)
  const other = await openStore({ ...options, databaseUrl: target })
  t.teardown(() => other.close())
  await other.users.create('zoe')
  await t.rejects(
    copyStore(options, target, () => {}),
    {
      name: 'RuleViolation',
      message: /neither empty nor a copy/,
    },
  )
  t.same(
    (await other.users.list()).map(({ name }) => name),
    ['zoe'],
  )
})

test('does not change a finished copy that was written to', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  await fill(store)
  const target = await createPostgresDatabase(t)
  await copyStore(options, target, () => {})
  const copied = await openStore({ ...options, databaseUrl: target })
  t.teardown(() => copied.close())
  const { id } = await store.repositories.get('alice', 'one')
  await copied.statuses.report({ ...status(id), context: 'context 1', state: 'failure' })
  await t.rejects(
    copyStore(options, target, () => {}),
    { name: 'RuleViolation' },
  )
  const statuses = await copied.statuses.list(id, SHA)
  t.equal(statuses.find(({ context }) => context === 'context 1')?.state, 'failure')
})

/** Stores rows in every table, and enough statuses for several batches. */
async function fill(store: Store): Promise<void> {
  const alice = await store.users.create('alice', { passwordHash: 'hash' })
  const bob = await store.users.create('bob')
  const newRepository = { visibility: 'private', objectFormat: 'sha1' } as const
  const one = await store.repositories.create({ owner: 'alice', name: 'one', ...newRepository })
  await store.repositories.create({ owner: 'carol', name: 'two', path: '/srv/two.git', ...newRepository })
  await store.repositories.setAccess('alice', 'one', bob.id, 'read')
  const token = {
    userId: alice.id,
    name: '\u{1F511} é',
    prefix: 'cst_abc',
    scopes: ['repo'],
    expiresAt: 4e12,
  }
  await store.tokens.create({ ...token, hash: 'hash' })
  await store.rules.set(one, { branchPattern: 'main', required: ['ci/*', 'é'], bypass: [bob] })
  await insertSession(store, 'session', bob.id)
  await store.failures.count('192.0.2.1', { limit: 30, window: 300 })
  await recordEvent(store.engine.kysely, {
    by: ADMINISTRATOR,
    action: 'user.locked',
    user: alice,
    details: { sessions: 1 },
  })
  const contexts = Array.from({ length: 1_199 }, (_, index) => `context ${index}`)
  await Promise.all(
    contexts.map((context) => store.statuses.report({ ...status(one.id), context, state: 'success' })),
  )
  await store.statuses.report({
    ...status(one.id),
    context: '\u{10FFFF} "\\\n\t\u0001',
    state: 'pending',
    description: '',
  })
}

function status(repositoryId: number) {
  return { repositoryId, sha: SHA, description: null, targetUrl: 'https://example.org/\u00fc' } as const
}
