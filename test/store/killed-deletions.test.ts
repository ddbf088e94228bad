import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { hashToken } from '../../src/auth/token.ts'
import { removeDeletedRepositories } from '../../src/repositories/delete.ts'
import type { Store, StoreOptions } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { startProcess } from '../helpers/process.ts'
import { addReport, addRepository, addToken } from '../helpers/records.ts'

const SHA = 'a'.repeat(40)
/** More than any deletion of these tests consists of. */
const MOST = 20

/** Kills a process in one change of a deletion. @returns whether the deletion had so many */
async function killIn(t: Test, options: StoreOptions, what: string, step: number): Promise<boolean> {
  const program = resolve(import.meta.dirname, 'fixtures/killed-deletion.ts')
  const killed = startProcess(t, process.execPath, [program, JSON.stringify(options), what, `${step}`])
  const end = await killed.ended
  t.ok(end === 'SIGKILL' || end === 0, killed.stderr())
  return end === 'SIGKILL'
}

function numbers(size: number) {
  return sql.raw(
    `with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < ${size})`,
  )
}

async function count({ engine }: Store, table: string, column: string, id: number): Promise<number> {
  const { rows } = await sql<{ rows: number }>`select count(*) as rows from ${sql.table(table)}
    where ${sql.ref(column)} = ${id}`.execute(engine.kysely)
  return Number(rows[0]?.rows)
}

for (const database of databases) {
  test(`${database.name}: a deletion of a repository is killed at each step`, async (t) => {
    const { store, options } = await openTestStore(t, database, { statementTimeout: false })
    const { kysely } = store.engine
    let isKilled = true
    let step = 0
    while (isKilled && step < MOST) {
      step++
      const { id, path } = await addRepository(store, 'acme/rocket')
      await sql`${numbers(6_000)} insert into statuses (repository_id, sha, context, id, state, created_at, updated_at)
        select ${sql.lit(id)}, 'c' || (i / 100), 'ci/' || i, 'id' || i, 'success', 0, 0 from numbers`.execute(
        kysely,
      )
      const before = (await listEvents(store)).length
      isKilled = await killIn(t, options, 'repository', step)
      const actions = (await listEvents(store)).slice(before).map(({ action }) => action)
      if (step === 1) {
        t.same(actions, [], 'nothing was changed')
        t.equal(await count(store, 'statuses', 'repository_id', id), 6_000)
        t.ok(existsSync(path))
        t.match(await addReport({ store, repositoryId: id, sha: SHA }, 'ci'), { context: 'ci' })
        await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'rocket' })
      } else t.same(actions, ['repository.deleted'], `once, in step ${step}`)

      t.equal(await store.repositories.find('acme', 'rocket'), undefined)
      t.equal(await addReport({ store, repositoryId: id, sha: SHA }, 'late'), undefined)
      const again = await addRepository(store, 'acme/rocket')
      await addReport({ store, repositoryId: again.id, sha: SHA }, 'ci')
      await removeDeletedRepositories(store)
      const left = [
        await count(store, 'statuses', 'repository_id', id),
        await count(store, 'repositories', 'id', id),
        existsSync(path),
      ]
      t.same(left, [0, 0, false], `nothing is left after step ${step}`)
      t.equal((await store.statuses.list(again.id, SHA)).length, 1, 'the next one of the name stays')
      t.ok(existsSync(again.path))
      await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'rocket' })
      await removeDeletedRepositories(store)
    }
    t.ok(step > 3 && step < MOST, `${step - 1} kills`)

    const half = await addRepository(store, 'acme/rocket')
    const other = await addRepository(store, 'acme/other')
    await addReport({ store, repositoryId: other.id, sha: SHA }, 'ci')
    t.ok(await killIn(t, options, 'files', MOST), 'killed while files are removed')
    const isThere = (path: string) => [path, join(path, 'refs'), join(path, 'objects')].map(existsSync)
    t.same(isThere(half.path), [true, false, true])
    t.equal(await store.repositories.find('acme', 'rocket'), undefined)
    const again = await addRepository(store, 'acme/rocket')
    await removeDeletedRepositories(store)
    t.same([existsSync(half.path), await count(store, 'repositories', 'id', half.id)], [false, 0])
    for (const { path } of [other, again]) t.same(isThere(path), [true, true, true], 'others stay')
    t.equal((await store.statuses.list(other.id, SHA)).length, 1)
  })

  test(`${database.name}: a deletion of a user is killed at each step, and goes on`, async (t) => {
    const { store, options } = await openTestStore(t, database, { statementTimeout: false })
    const { kysely } = store.engine
    const write = asAdministrator(store)
    await write.groups.create('heirs')
    const { id } = await write.users.create('ann')
    const { secret } = await addToken(store, id)
    const kind = { visibility: 'private', objectFormat: 'sha1' } as const
    await write.repositories.createAll(
      Array.from({ length: 510 }, (_, index) => ({ owner: 'ann', name: `r${index}`, ...kind })),
    )
    await sql`${numbers(1_100)} insert into tokens (id, user_id, name, prefix, hash, scopes, created_at)
      select 't' || i, ${sql.lit(id)}, 'n', 'p', 't' || i, '', 0 from numbers`.execute(kysely)
    await sql`${numbers(5_100)} insert into sessions (hash, user_id, created_at, seen_at)
      select 's' || i, ${sql.lit(id)}, 0, 0 from numbers`.execute(kysely)
    const before = (await listEvents(store)).length

    let step = 1
    for (; step < MOST && (await killIn(t, options, 'user', step)); step++) {
      const user = await store.users.get('ann')
      const { token } = await store.access.find(null, hashToken(secret), 'ann', 'r0')
      const owners = (await store.repositories.list()).map(({ owner }) => owner)
      t.equal(owners.length, 510, `each repository has an owner after step ${step}`)
      if (step === 1) {
        t.same([user.lockedAt, token?.name, new Set(owners)], [null, 'test', new Set(['ann'])])
        t.equal((await listEvents(store)).length, before, 'nothing was changed')
      } else
        t.same([user.lockedAt === null, token], [false, null], `nothing of the user works in step ${step}`)
    }
    t.ok(step > 4 && step < MOST, `${step - 1} kills`)
    const counts: Record<string, number> = {}
    for (const { action } of (await listEvents(store)).slice(before))
      counts[action] = (counts[action] ?? 0) + 1
    t.same(
      counts,
      { 'user.locked': 1, 'repository.transferred': 510, 'token.revoked': 1_101, 'user.deleted': 1 },
      'each event once',
    )
    const left = await Promise.all(
      ['tokens', 'sessions', 'members'].map((table) => count(store, table, 'user_id', id)),
    )
    t.same([left, await store.users.find('ann')], [[0, 0, 0], undefined])
  })
}
