import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { ADMINISTRATOR } from '../../../src/domain/actors.ts'
import { restoreBackup } from '../../../src/maintenance/backup/restore.ts'
import { writeBackup } from '../../../src/maintenance/backup/write.ts'
import { openStore, type Store } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { databases, openTestStore, sqlite, temporaryFolder } from '../../helpers/databases.ts'
import { listEvents } from '../../helpers/events.ts'
import { BROWSER, insertSession } from '../../helpers/sessions.ts'

const SHA = 'a'.repeat(40)
const LAST_CONTEXT = '\u{10FFFF} "\\\n\t\u0001'
const quiet = () => {}

function report(store: Store, repositoryId: number, fields: object = {}) {
  return store.statuses.report({
    repositoryId,
    sha: SHA,
    context: 'default',
    state: 'success',
    description: null,
    target_url: null,
    ...fields,
  })
}

/**
 * Stores rows in every table, more than one batch, and text that is easily damaged.
 *
 * @returns the repository's id
 */
async function fill(store: Store): Promise<number> {
  const alice = await asAdministrator(store).users.create('Alice', { passwordHash: 'hash' })
  const bob = await asAdministrator(store).users.create('bob')
  await asAdministrator(store).users.link('bob', { issuer: 'https://id.example.org/', subject: 'b' })
  const gone = await asAdministrator(store).users.create('gone')
  const create = (name: string) =>
    asAdministrator(store).repositories.create({
      owner: 'Alice',
      name,
      visibility: 'private',
      objectFormat: 'sha1',
    })
  const rocket = await create('rocket')
  const { id } = rocket
  await asAdministrator(store).repositories.create({
    owner: 'carol',
    name: 'imported',
    visibility: 'public',
    objectFormat: 'sha256',
    path: '/srv/git/imported.git',
  })
  await asAdministrator(store).collaborators.set({ owner: 'alice', name: 'rocket' }, bob.id, 'read')
  const token = { userId: alice.id, name: 'CI', prefix: 'cst_1', scopes: ['repo'] }
  await asAdministrator(store).tokens.create({ ...token, hash: 'h1', expiresAt: 1_999_999_999_999 })
  const limits = { repositories: [id], contexts: ['ci/*', '🚀'], push: false }
  await asAdministrator(store).tokens.create({ ...token, hash: 'h2', expiresAt: null, limits })
  await asAdministrator(store).rules.set(rocket, {
    refPattern: 'release/*',
    required: ['ci/*', 'é "\\\u2028 🚀'],
    bypass: [alice, bob],
  })
  await asAdministrator(store).reservations.set(rocket, 'ci/*', [alice, bob, gone])
  await asAdministrator(store).reservations.set(rocket, 'é "\\ 🚀', [gone])
  await asAdministrator(store).users.delete(gone.name)
  await insertSession(store, 'session', alice.id)
  await store.failures.count('192.0.2.1', { limit: 30, window: 60 })
  await store.audit.transaction(ADMINISTRATOR, (change) =>
    change.record({ action: 'user.locked', subject: alice, details: { sessions: 1 } }),
  )
  await Promise.all(
    Array.from({ length: 634 }, (_, index) => report(store, id, { context: `context ${index}` })),
  )
  const description = 'line\u2028separator \u2029 \r\n "quoted" \\ 🚀 e\u0301 \ufeff'
  await report(store, id, { context: '🚀', description, target_url: 'https://example.org/' })
  const { token: reporter } = await store.access.find(null, 'h1', 'alice', 'rocket')
  await report(store, id, { context: 'a run', state: 'failure', run: 'newer 🚀', elapsed: 60_000 })
  await report(store, id, { context: LAST_CONTEXT, state: 'pending', description: '' })
  await report(store, id, { context: 'empty', description: '', reporterId: reporter?.reporterId })
  // Makes the highest id that was given out one of a deleted row.
  await create('deleted')
  await asAdministrator(store).repositories.delete({ owner: 'alice', name: 'deleted' })
  return id
}

async function contentOf(store: Store) {
  const users = await store.users.list()
  const repositories = (await store.repositories.list()).map((row) =>
    row.managed ? { ...row, path: '' } : row,
  )
  const tokens = await Promise.all(users.map(({ id }) => store.tokens.list(id)))
  const statuses = await Promise.all(
    repositories.map(({ id }) => store.statuses.listWithReporters({ repositoryId: id, sha: SHA })),
  )
  const rules = await Promise.all(repositories.map(({ id }) => store.rules.load(id)))
  const access = await store.access.find(null, 'h1', 'alice', 'rocket')
  const reservations = await Promise.all(repositories.map(({ id }) => store.reservations.list(id)))
  return {
    users: await Promise.all(users.map(({ name }) => store.users.find(name))),
    collaborators: await store.collaborators.list({ owner: 'alice', name: 'rocket' }),
    repositories,
    tokens,
    statuses,
    events: await listEvents(store),
    rules,
    reservations,
    // With the ids of deleted users, whom no list names.
    reserved: access.repository?.reservations,
    token: access.token,
    permission: access.repository?.permission,
  }
}

/** Returns the lines of a backup, and the last one. */
function readParts(file: string) {
  const lines = gunzipSync(readFileSync(file)).toString('utf8').trimEnd().split('\n')
  const parts = lines.map((line) => JSON.parse(line))
  const end = parts.pop()
  return { parts, end }
}

function writeParts(file: string, parts: readonly object[], end: object): void {
  const text = parts.map((part) => `${JSON.stringify(part)}\n`).join('')
  const sha256 = createHash('sha256').update(text).digest('hex')
  writeFileSync(file, gzipSync(`${text}${JSON.stringify({ ...end, sha256 })}\n`))
}

async function backup(t: Test, store: Store): Promise<string> {
  const file = join(temporaryFolder(t), 'statuses.backup')
  await writeBackup(store.engine, file, quiet)
  return file
}

for (const from of databases) {
  for (const to of databases) {
    t.test(`a backup of ${from.name} restores into ${to.name}`, async (t) => {
      const { store } = await openTestStore(t, from)
      const repositoryId = await fill(store)
      const file = await backup(t, store)
      t.equal(statSync(file).mode & 0o777, 0o600, 'only its owner may read it')
      t.same(readdirSync(join(file, '..')), ['statuses.backup'], 'leaves no other files')

      const { store: restored } = await openTestStore(t, to)
      await restoreBackup(restored.engine, file, quiet)
      t.same(await contentOf(restored), await contentOf(store))
      t.equal((await restored.statuses.list(repositoryId, SHA)).length, 638)
      t.same((await restored.engine.checkFiles?.()) ?? [], [])
      t.equal(await restored.sessions.use('session', BROWSER), undefined, 'without sessions')
      t.equal(await restored.failures.find('192.0.2.1'), null, 'without failures')

      const ofRun = { context: 'a run', elapsed: 120_000 }
      for (const [run, state, code] of [
        ['older', 'success', 'run_superseded'],
        ['newer 🚀', 'pending', 'report_late'],
      ] as const)
        await t.rejects(report(restored, repositoryId, { ...ofRun, run, state }), { code }, 'with its run')

      const newest = { owner: 'Alice', name: 'new', visibility: 'public', objectFormat: 'sha1' } as const
      const [here, there] = [
        await asAdministrator(store).repositories.create(newest),
        await asAdministrator(restored).repositories.create(newest),
      ]
      t.equal(there.id, here.id, 'ids continue')
      await asAdministrator(restored).users.create('gone')
      t.same(
        (await restored.reservations.list(repositoryId)).map(({ users }) => users.map(({ name }) => name)),
        [['Alice', 'bob'], []],
        'a new user of the name of a deleted one may report nothing that was reserved for that one',
      )
      await t.rejects(restoreBackup(restored.engine, file, quiet), { message: /not empty/ })
    })
  }

  t.test(`${from.name}: a backup is a snapshot even while others write`, async (t) => {
    const { store, options } = await openTestStore(t, from)
    const id = await fill(store)
    const other = await openStore(options)
    t.teardown(() => other.close())
    let done = false
    let reports = 0
    const writing = (async () => {
      // One after the other, alternating between two commits: a snapshot contains all up to one of
      // them.
      for (; !done; reports++) {
        const context = `w${String(reports).padStart(6, '0')}`
        await report(other, id, { context, sha: reports % 2 === 0 ? '0'.repeat(40) : 'f'.repeat(40) })
      }
    })()
    while (reports < 20) await report(other, id)
    // Few rows are read faster than a busy database stores a report: until one was stored meanwhile.
    let [file, before] = ['', 0]
    do {
      before = reports
      file = await backup(t, store)
    } while (reports === before)
    done = true
    await writing

    const { store: restored } = await openTestStore(t, sqlite)
    await restoreBackup(restored.engine, file, quiet)
    const even = await restored.statuses.list(id, '0'.repeat(40))
    const odd = await restored.statuses.list(id, 'f'.repeat(40))
    const contexts = [...even, ...odd].map(({ context }) => context).sort()
    t.same(
      contexts,
      contexts.map((_, index) => `w${String(index).padStart(6, '0')}`),
      'without gaps',
    )
  })
}

t.test('a backup of the version before contains deleted repositories, which are not restored', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const id = await fill(store)
  const kind = { visibility: 'private', objectFormat: 'sha1' } as const
  const gone = await asAdministrator(store).repositories.create({ owner: 'Alice', name: 'gone', ...kind })
  await report(store, gone.id)
  const file = await backup(t, store)
  // As a deletion leaves the row.
  const left: Record<string, unknown> = {
    owner_id: null,
    owner: '/',
    owner_key: '/',
    name: '9',
    name_key: '9',
  }
  const { parts, end } = readParts(file)
  const rows = parts.filter(({ table }) => table === 'repositories')
  t.equal(rows.length, 1)
  for (const { columns, rows: all } of rows)
    for (const row of all.filter((row: unknown[]) => row[columns.indexOf('id')] === gone.id))
      for (const [column, value] of Object.entries(left)) row[columns.indexOf(column)] = value
  writeParts(file, parts, end)

  for (const database of databases) {
    const { store: restored } = await openTestStore(t, database)
    await restoreBackup(restored.engine, file, quiet)
    t.same(await restored.repositories.listDeleted(), [])
    t.same(
      (await restored.repositories.list()).map(({ name }) => name),
      (await store.repositories.list()).map(({ name }) => name).filter((name) => name !== 'gone'),
    )
    t.equal((await restored.statuses.list(id, SHA)).length, 638, 'other statuses stay')
    const { kysely } = restored.engine
    const statuses = kysely.selectFrom('statuses').select('context').where('repository_id', '=', gone.id)
    t.same(await statuses.execute(), [], `${database.name}: its statuses go with it`)
    const next = await asAdministrator(restored).repositories.create({
      owner: 'Alice',
      name: 'gone',
      ...kind,
    })
    t.ok(next.id > gone.id, 'and no id is used again')
  }
})

t.test('a backup of a version without reporters and subjects gives tokens and events theirs', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const id = await fill(store)
  const file = await backup(t, store)
  const added = [
    'repositories',
    'contexts',
    'push',
    'reporter_id',
    'subject_id',
    'subject_name',
    'subject_key',
  ]
  const { parts, end } = readParts(file)
  const older = parts
    .filter(({ table }) => table !== 'reporters')
    .map(({ columns, rows, ...part }) => {
      if (!columns) return part
      const isKept = (_value: unknown, index: number) => !added.includes(columns[index])
      return {
        ...part,
        columns: columns.filter(isKept),
        rows: rows.map((row: unknown[]) => row.filter(isKept)),
      }
    })
  delete end.counts.reporters
  writeParts(file, older, end)

  for (const database of databases) {
    const { store: restored } = await openTestStore(t, database)
    await restoreBackup(restored.engine, file, quiet)
    const { token } = await restored.access.find(null, 'h2', 'alice', 'rocket')
    await report(restored, id, { context: 'empty', reporterId: token?.reporterId })
    const events = restored.engine.kysely.selectFrom('audit_events').where('action', '=', 'user.locked')
    t.match(await events.selectAll().execute(), [
      { subject_id: 1, subject_name: 'Alice', subject_key: 'alice' },
    ])
    const rows = await restored.statuses.listWithReporters({ repositoryId: id, sha: SHA })
    t.same(
      rows.slice(-4).map((row) => [row.context, row.reporter_user, row.reporter_token]),
      [
        ['context 99', null, null],
        ['empty', 'Alice', 'CI'],
        ['🚀', null, null],
        [LAST_CONTEXT, null, null],
      ],
      database.name,
    )
  }
})

t.test('rejects files that are not complete backups, and leaves the database empty', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  await fill(store)
  const file = await backup(t, store)
  const packed = readFileSync(file)
  const lines = gunzipSync(packed).toString('utf8').trimEnd().split('\n')
  const pack = (changed: string[]) => gzipSync(`${changed.join('\n')}\n`)
  const [header = '', ...rest] = lines
  const wrong: [string, Buffer, RegExp][] = [
    ['empty', Buffer.alloc(0), /damaged/],
    ['something else', Buffer.from('select 1'), /damaged/],
    ['another gzip', gzipSync('{}\n'), /: it is not a backup/],
    ['cut off', packed.subarray(0, -100), /damaged/],
    ['without its end', pack(lines.slice(0, -1)), /damaged/],
    ['without a line', pack(lines.toSpliced(2, 1)), /damaged/],
    // The digest is that of the lines before it.
    [
      'with fewer rows than its end says',
      pack([...lines.slice(0, -1), (lines.at(-1) ?? '').replace('"counts":{', '"counts":{"none":1,')]),
      /damaged/,
    ],
    [
      'with a changed letter',
      pack(lines.map((line) => line.replace('context 77"', 'context 78"'))),
      /damaged/,
    ],
    ['with something after its end', pack([...lines, lines[1] ?? '']), /damaged/],
    ['of another table', pack(lines.map((line) => line.replace('"tokens"', '"sessions"'))), /damaged/],
    [
      'of a newer format',
      pack([header.replace('"version":1', '"version":2'), ...rest]),
      /format version 2, but this server reads 1/,
    ],
    [
      'of a newer schema',
      pack([header.replace('"001-initial"', '"001-initial","999-later"'), ...rest]),
      /newer version.*999-later/,
    ],
  ]
  const { store: empty } = await openTestStore(t, sqlite)
  const damagedFile = join(temporaryFolder(t), 'damaged')
  for (const [name, bytes, message] of wrong) {
    writeFileSync(damagedFile, bytes)
    await t.rejects(restoreBackup(empty.engine, damagedFile, quiet), { name: 'Refusal', message }, name)
    t.equal(await empty.users.any(), false, `${name}: still empty`)
  }
  await t.rejects(restoreBackup(empty.engine, '/nonexistent/file', quiet), {
    name: 'Refusal',
    message: '/nonexistent/file cannot be read: no such file or directory',
  })
  await t.rejects(restoreBackup(empty.engine, '/tmp', quiet), {
    name: 'Refusal',
    message: /^\/tmp cannot be read: illegal operation on a directory$/,
  })
  await t.rejects(writeBackup(store.engine, '/nonexistent/file', quiet), { code: 'ENOENT' })
  await restoreBackup(empty.engine, file, quiet)
  t.same(await contentOf(empty), await contentOf(store))
})

t.test('keeps an earlier backup until the new one is complete', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  await fill(store)
  const file = await backup(t, store)
  const before = readFileSync(file)
  const full = () => {
    throw new Error('disk full')
  }
  await t.rejects(writeBackup(store.engine, file, full), { message: 'disk full' })
  t.same(readFileSync(file), before)
  await asAdministrator(store).users.create('later')
  await writeBackup(store.engine, file, quiet)
  t.notSame(readFileSync(file), before)
  t.same(readdirSync(join(file, '..')), ['statuses.backup'])
})
