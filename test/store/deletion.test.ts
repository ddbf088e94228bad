import { execFileSync, spawn } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { ADMINISTRATOR, type Administrator, type SignedIn } from '../../src/domain/actors.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { readBackup } from '../../src/maintenance/backup/read.ts'
import { writeBackup } from '../../src/maintenance/backup/write.ts'
import { checkAll } from '../../src/maintenance/check.ts'
import { deleteRepository, removeDeletedRepositories } from '../../src/repositories/delete.ts'
import type { Transact } from '../../src/store/audit/change.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { startInstance } from '../helpers/instance.ts'
import { minimalEnvironment } from '../helpers/process.ts'
import { addReport, addRepository, addToken } from '../helpers/records.ts'
import { insertSession } from '../helpers/sessions.ts'
import { until } from '../helpers/until.ts'

const SHA = 'a'.repeat(40)
const rocket = { owner: 'acme', name: 'rocket' }

/** Inserts statuses of 110 commits: more than three steps delete. */
async function addStatuses({ engine }: Store, repositoryId: number, size = 11_000): Promise<void> {
  await sql`with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < ${sql.lit(size)})
    insert into statuses (repository_id, sha, context, id, state, created_at, updated_at)
    select ${sql.lit(repositoryId)}, 'c' || (i / 100), 'ci/' || i, 'id' || i, 'success', 0, 0 from numbers`.execute(
    engine.kysely,
  )
}

async function countRows({ engine }: Store, table: 'statuses' | 'repositories', id: number): Promise<number> {
  const column = table === 'statuses' ? 'repository_id' : 'id'
  const { rows } = await sql<{ rows: number }>`select count(*) as rows from ${sql.table(table)}
    where ${sql.ref(column)} = ${id}`.execute(engine.kysely)
  return Number(rows[0]?.rows)
}

for (const database of databases) {
  test(database.name, async (t) => {
    t.test('a deleted repository is out of reach, and its name is free', async (t) => {
      const { store, options } = await openTestStore(t, database)
      const write = asAdministrator(store)
      const { id, path } = await addRepository(store, 'acme/rocket')
      const ann = await write.users.create('ann')
      const { id: tokenId } = await addToken(store, ann.id, { limits: { repositories: [id] } })
      await write.collaborators.set(rocket, ann.id, 'admin')
      await write.rules.set(rocket, { refPattern: 'main', required: ['ci'], bypass: [ann] })
      await write.repositories.rename(rocket, { owner: 'acme', name: 'missile' })
      await write.repositories.rename({ owner: 'acme', name: 'missile' }, rocket)
      await addReport({ store, repositoryId: id, sha: SHA }, 'ci')
      const push = {
        by: { kind: 'anonymous', address: '192.0.2.1' },
        repositoryId: id,
        repositoryName: 'acme/rocket',
      }
      await store.engine.kysely
        .insertInto('push_intents')
        .values({ repository_id: id, pusher: JSON.stringify(push), commands: '[]', started_at: 0 })
        .execute()

      t.match(await write.repositories.delete(rocket), { id, ...rocket })
      await t.rejects(write.repositories.delete(rocket), { message: 'there is no repository acme/rocket' })
      const other = await openStore(options)
      t.teardown(() => other.close())
      for (const reader of [store, other]) {
        t.same(await reader.repositories.list(), [])
        t.equal(await reader.repositories.find('acme', 'rocket'), undefined)
        t.equal(await reader.listing.find(ann.id, 'acme', 'rocket'), null)
        t.same(await reader.listing.list(ann.id, 10), [])
        t.same(await reader.listing.writable(ann.id, 10), [])
        t.same(await reader.listing.of(ann.id, [id]), [])
        t.equal(await reader.listing.findRenamed(ann.id, 'acme', 'missile'), null)
        t.same(await reader.collaborators.listAll(), [])
        t.match(await reader.reservedNames.list(), [{ name: 'acme/missile', repository: null }])
        t.match(await reader.tokens.list(ann.id), [{ id: tokenId, repositories: [], hiddenRepositories: 0 }])
        t.match(await reader.pushes.listOpen(1), [{ repository: null }])
        for (const context of ['ci', 'new'])
          t.equal(await addReport({ store: reader, repositoryId: id, sha: SHA }, context), undefined, context)
      }
      t.equal(await countRows(store, 'statuses', id), 1, 'no report is stored')

      const file = join(options.dataDir, 'backup')
      await writeBackup(store.engine, file, () => {})
      const { counts } = await readBackup(file, {})
      t.match(counts, { repositories: 0, statuses: 0, reserved_names: 1 }, 'a backup leaves out what is left')

      const again = await addRepository(store, 'acme/rocket')
      t.not(again.id, id)
      t.same(await store.statuses.list(again.id, SHA), [])
      t.same(await store.repositories.listDeleted(), [id])
      await removeDeletedRepositories(store)
      t.same([await countRows(store, 'repositories', id), existsSync(path)], [0, false])
      t.ok(existsSync(again.path))
      t.equal((await listEvents(store)).filter(({ action }) => action === 'repository.deleted').length, 1)
      t.match(await addReport({ store, repositoryId: again.id, sha: SHA }, 'ci'), { context: 'ci' })
    })

    t.test('what a deletion leaves is removed, whoever lost a right and wherever it ended', async (t) => {
      const { store } = await openTestStore(t, database, { statementTimeout: false })
      const write = asAdministrator(store)
      const user = await write.users.create('ann')
      await insertSession(store, 'session', user.id)
      const by: SignedIn = { kind: 'user', user, address: '192.0.2.1', session: 'session' }
      const create = async () => {
        const repository = await addRepository(store, 'acme/rocket')
        await write.members.set('acme', user.id, 'admin')
        await addStatuses(store, repository.id)
        return repository
      }
      const left = async (id: number) => [
        await countRows(store, 'repositories', id),
        await countRows(store, 'statuses', id),
      ]

      const { id, path } = await create()
      await deleteRepository(
        async (work) => {
          const done = await store.audit.transaction(by, work)
          await write.members.set('acme', user.id, null)
          return done
        },
        store,
        rocket,
      )
      t.same([await left(id), existsSync(path)], [[0, 0], false], 'the right is not asked for again')
      await t.rejects(
        deleteRepository((work) => store.audit.transaction(by, work), store, rocket),
        { code: 'repository_unknown' },
      )

      const stopped = await create()
      await write.repositories.delete(rocket)
      const stop = new Error('stopped')
      await t.rejects(
        store.repositories.removeDeleted(stopped.id, () => Promise.reject(stop)),
        stop,
      )
      const [rows = 0, statuses = 0] = await left(stopped.id)
      t.ok(rows === 1 && statuses > 0 && statuses <= 5_000, `${statuses} statuses go with the row`)
      t.ok(existsSync(stopped.path))
      t.same(await store.repositoryFolders.orphaned(), [], 'its folder still belongs to it')
      const result = await checkAll(
        store,
        new CommitLookup(),
        { full: true, commits: false, prune: false },
        () => {},
      )
      t.same([result.findings, await left(stopped.id), existsSync(stopped.path)], [[], [0, 0], false])
      await store.repositories.removeDeleted(stopped.id, () => Promise.reject(stop))

      const imported = await addRepository(store, 'acme/imported')
      const place = join(store.repositories.folder, 'imported.git')
      await mkdir(place)
      await writeFile(join(place, 'HEAD'), '')
      await store.engine.kysely
        .updateTable('repositories')
        .set({ path: place })
        .where('id', '=', imported.id)
        .execute()
      await deleteRepository((work) => store.audit.transaction({ kind: 'administrator' }, work), store, {
        owner: 'acme',
        name: 'imported',
      })
      t.same([await left(imported.id), existsSync(place)], [[0, 0], true], 'imported files stay')
      await store.repositories.removeDeleted((await addRepository(store, 'acme/present')).id, () =>
        Promise.reject(stop),
      )
      t.match(await store.repositories.list(), [{ name: 'present' }], 'one that is not deleted stays')
    })

    t.test('one whose files cannot be removed keeps no other one', async (t) => {
      const { store } = await openTestStore(t, database)
      const { id, path } = await addRepository(store, 'acme/rocket')
      const other = await addRepository(store, 'acme/missile')
      // Nobody can name what is below it by a path.
      const folder = 'x'.repeat(250)
      const deepen = `for (let depth = 0; depth < 20; depth++) { fs.mkdirSync('${folder}'); process.chdir('${folder}') }`
      execFileSync(process.execPath, ['--eval', deepen], { cwd: path })
      const transact: Transact<Administrator> = (work) => store.audit.transaction(ADMINISTRATOR, work)
      t.match(await deleteRepository(transact, store, rocket), { code: 'ENAMETOOLONG' })
      await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'missile' })
      t.match(await removeDeletedRepositories(store), [{ code: 'ENAMETOOLONG' }])
      t.same(await store.repositories.listDeleted(), [id])
      t.same([existsSync(path), existsSync(other.path)], [true, false])
      const choice = { full: false, commits: false, prune: false }
      const { findings } = await checkAll(store, new CommitLookup(), choice, () => {})
      t.match(findings, [/^deleted repository: ENAMETOOLONG: /])
      t.equal(findings.length, 1)
      rmSync(join(path, folder), { recursive: true })
      t.same([await removeDeletedRepositories(store), existsSync(path)], [[], false])
    })

    t.test('a killed command is completed by the server', async (t) => {
      const { store, options } = await openTestStore(t, database, { statementTimeout: false })
      const { id, path } = await addRepository(store, 'acme/rocket')
      await addStatuses(store, id, 30_000)
      await kill(t, options, async () => (await store.repositories.list()).length === 0)
      t.ok((await countRows(store, 'repositories', id)) <= 1)
      t.equal((await listEvents(store)).at(-1)?.action, 'repository.deleted')
      await startInstance(t, options)
      await until(async () => (await countRows(store, 'repositories', id)) === 0)
      t.same([await countRows(store, 'statuses', id), existsSync(path)], [0, false])
    })
  })
}

/** Runs `repo delete` and kills it once something is so. */
async function kill(
  t: Test,
  options: { dataDir: string; databaseUrl?: string | null },
  when: () => Promise<boolean>,
) {
  const main = resolve(import.meta.dirname, '../../src/cli/main.ts')
  const child = spawn(process.execPath, [main, 'repo', 'delete', 'acme/rocket'], {
    env: {
      ...minimalEnvironment(),
      DATA_DIR: options.dataDir,
      ...(options.databaseUrl && { DATABASE_URL: options.databaseUrl }),
    },
    stdio: 'inherit',
  })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = new Promise((resolve) => child.once('exit', resolve))
  await until(when)
  child.kill('SIGKILL')
  await ended
}
